"""Memory, speed and fleet of plans: directions that must hold, and worked examples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paceline.foundation.planning.decisions.fleet import MAX_LOAD, Bill, plan_fleet
from paceline.foundation.planning.decisions.performance import BatchPerformance, batch_sizes
from paceline.foundation.planning.decisions.waits import SlotUse
from paceline.foundation.planning.values import Load, Offer, Placement, Slo
from unit.capacity.machines import GPU
from unit.plan.planning import LLAMA_70B, QWEN_7B, plan_json

POINT = BatchPerformance(
    slots=SlotUse(10, requests_per_s=5.0, prefill_s=0.09, step_s=0.01, steps_per_prompt=0.1),
    draft_length=0,
    speculation_gain=0.0,
    tokens_per_step=1.0,
    prompt_wait_s=0.01,
    tpot_s=0.01,
    output_tokens_per_s=1000.0,
)
"""Ten slots of two seconds: five requests a second."""
ONE_GPU = Placement(GPU, 1, 1)
SOLD_SINGLY = (Offer(1, 2.0, "a price list"),)


def rows(plan: dict[str, Any], key: str) -> list[float]:
    return [row[key] for row in plan["performance"]]


def test_latency_and_throughput_rise_with_the_batch(tmp_path: Path) -> None:
    plan = plan_json(tmp_path, QWEN_7B, "--gpu", "h100")
    assert rows(plan, "tpot_ms") == sorted(rows(plan, "tpot_ms"))
    assert rows(plan, "output_tokens_per_s") == sorted(rows(plan, "output_tokens_per_s"))


def test_the_best_draft_length_falls_with_load(tmp_path: Path) -> None:
    plan = plan_json(
        tmp_path, "Qwen/Qwen2.5-72B-Instruct", "--gpu", "h100", "--num-gpus", "4",
        "--acceptance", "0.9",
    )  # fmt: skip
    lengths = rows(plan, "draft_length")
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[-1]
    assert set(lengths) <= {0, 1, 3, 7}


def test_speculation_gains_nothing_without_acceptance(tmp_path: Path) -> None:
    plan = plan_json(
        tmp_path, "Qwen/Qwen2.5-72B-Instruct", "--gpu", "h100", "--num-gpus", "4",
        "--acceptance", "0",
    )  # fmt: skip
    assert set(rows(plan, "draft_length")) == {0}
    assert plan["speculation"]["gain"] == 0


def test_the_gain_grows_with_acceptance(tmp_path: Path) -> None:
    """The acceptance of the bundled pair is measured, from hard to predictable text."""
    plan = plan_json(tmp_path, "bundled", "--gpu", "cpu", "--dtype", "float32",
                     "--concurrency", "1")  # fmt: skip
    speculation = plan["speculation"]
    assert 0 < speculation["gain_low"] < speculation["gain"] < speculation["gain_high"]


def test_an_slo_bounds_the_batch(tmp_path: Path) -> None:
    free = plan_json(tmp_path, QWEN_7B, "--gpu", "h100")["operating_point"]
    bound = plan_json(tmp_path, QWEN_7B, "--gpu", "h100", "--slo-tpot-ms", "15")["operating_point"]
    assert bound["tpot_ms"] <= 15 < free["tpot_ms"]
    assert bound["num_requests"] < free["num_requests"]


def test_four_bits_hold_more_requests_on_a_small_gpu(tmp_path: Path) -> None:
    plan = plan_json(tmp_path, QWEN_7B, "--gpu", "l4")
    alternatives = {item["quantization"]: item for item in plan["alternatives"]}
    assert alternatives["awq"]["weights_bytes"] < 0.4 * plan["weights_bytes"]
    assert alternatives["awq"]["max_concurrent_requests"] > plan["max_concurrent_requests"]


def test_large_models_are_advised_fp8_where_the_gpu_multiplies_it(tmp_path: Path) -> None:
    advice = {
        item["topic"]: item
        for item in plan_json(tmp_path, LLAMA_70B, "--gpu", "h100", "--num-gpus", "4")["advice"]
    }
    assert advice["quantization"]["choice"] == "fp8"
    assert "tokens/s" in advice["quantization"]["reason"]


def test_small_models_are_advised_to_stay_as_they_are(tmp_path: Path) -> None:
    plan = plan_json(tmp_path, QWEN_7B, "--gpu", "h100")
    advice = {item["topic"]: item["choice"] for item in plan["advice"]}
    assert advice["quantization"] == "none"


def test_a_load_needs_replicas_below_the_highest_load() -> None:
    """100 requests a second over 5 a replica are 20; at 85 % load at least 24."""
    load = Load(requests_per_day=86_400 * 100, peak_factor=1.0)
    fleet = plan_fleet(POINT, load, Slo(), ONE_GPU, Bill(), offers=SOLD_SINGLY)
    assert fleet.replicas == 24
    assert fleet.load_fraction == pytest.approx(20 / 24)
    assert fleet.load_fraction <= MAX_LOAD


def test_a_short_time_to_first_token_needs_more_replicas() -> None:
    load = Load(requests_per_day=86_400 * 8, peak_factor=1.0)
    relaxed = plan_fleet(POINT, load, Slo(ttft_ms=5000), ONE_GPU, Bill(), offers=SOLD_SINGLY)
    strict = plan_fleet(POINT, load, Slo(ttft_ms=101), ONE_GPU, Bill(), offers=SOLD_SINGLY)
    assert strict.replicas > relaxed.replicas
    assert strict.slot_wait_s is not None
    assert strict.slot_wait_s <= 0.001


def test_the_loss_of_a_region_is_survived() -> None:
    """Each of three regions can take half of the load."""
    load = Load(requests_per_day=86_400 * 100, peak_factor=1.0)
    one = plan_fleet(POINT, load, Slo(), ONE_GPU, Bill(), offers=SOLD_SINGLY)
    three = plan_fleet(POINT, replace(load, regions=3), Slo(), ONE_GPU, Bill(), offers=SOLD_SINGLY)
    assert three.replicas_per_region == one.replicas_per_region / 2
    assert three.replicas == 36


def test_cost_by_hand() -> None:
    """2 USD an hour: 1460 a month; 86,400 requests of 256 tokens a day, 30.4 days."""
    load = Load(output_tokens=256, requests_per_day=86_400, peak_factor=1.0)
    fleet = plan_fleet(POINT, load, Slo(), ONE_GPU, Bill(2920.0, 2920.0), offers=SOLD_SINGLY)
    assert fleet.replicas == 1
    assert fleet.usd_per_month == 1460.0
    assert fleet.usd_per_million_output_tokens == pytest.approx(
        1460.0 / (86_400 * 256 * 365 / 12) * 1e6
    )
    assert fleet.usd_per_million_output_tokens_at_full_load == pytest.approx(2.0 / 3.6)
    assert fleet.payback is not None
    assert fleet.payback.months == 2.0


def test_batch_sizes_end_with_the_largest() -> None:
    assert batch_sizes(1) == [1]
    assert batch_sizes(100) == [1, 2, 4, 8, 16, 32, 64, 100]
    assert batch_sizes(64) == [1, 2, 4, 8, 16, 32, 64]
