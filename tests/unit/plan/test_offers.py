"""The bill is that of machines that are sold: whole ones, and none that no price buys."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from paceline.cli import main
from unit.plan.planning import LLAMA_70B, QWEN_7B, plan_json, run_plan

MACHINES = {
    "name": "h100",
    "gpu_offers": [],
    "offers": [{"num_gpus": 8, "usd_per_hour": 80.0, "source": "a list", "date": "2026-01-01"}],
}


def catalogue(folder: Path, *gpus: dict[str, Any]) -> tuple[str, str]:
    file = folder / "catalogue.json"
    file.write_text(json.dumps({"gpus": list(gpus)}))
    return ("--catalogue", str(file))


@pytest.mark.parametrize("model", [LLAMA_70B, QWEN_7B, "Qwen/Qwen3-32B", "deepseek-ai/DeepSeek-R1"])
def test_the_chosen_hardware_is_the_cheapest_that_holds_a_small_load(
    model: str, tmp_path: Path
) -> None:
    """Eight requests at once. For 70B it was eight B200 at 83,169 USD a month."""
    plan = plan_json(tmp_path, model)
    hardware, machines = plan["hardware"], plan["machines"]
    assert hardware["num_gpus"] == hardware["rented_machine"]["num_gpus"]
    assert hardware["tensor_parallel"] <= hardware["rented_machine"]["num_gpus"]
    assert all(one["requests_at_once"] >= 8 for one in machines)
    rents = [one["usd_per_month"] for one in machines]
    assert rents == sorted(rents)
    assert plan["cost"]["usd_per_month"] == rents[0]
    assert len(machines) > 1
    assert "Cheapest machines for 8 requests at once" in run_plan(model).stdout


def test_a_70b_model_is_not_planned_on_eight_large_gpus(tmp_path: Path) -> None:
    assert plan_json(tmp_path, LLAMA_70B)["cost"]["usd_per_month"] < 5000


@pytest.mark.parametrize(
    "load",
    [
        ("--concurrency", "64"),
        ("--requests-per-day", "1e6"),
        ("--requests-per-day", "2e5", "--slo-ttft-ms", "800"),
    ],
)
def test_a_stated_load_decides_which_machine_is_cheapest(
    load: tuple[str, ...], tmp_path: Path
) -> None:
    """No machine that is named costs less for the same load."""
    plan = plan_json(tmp_path, "Qwen/Qwen3-32B", *load)
    for gpu, num in (("h100", "1"), ("a100", "2"), ("l40s", "4"), ("h200", "1")):
        other = plan_json(tmp_path, "Qwen/Qwen3-32B", *load, "--gpu", gpu, "--num-gpus", num)
        if "--concurrency" not in load or other["operating_point"]["num_requests"] >= 64:
            assert plan["cost"]["usd_per_month"] <= other["cost"]["usd_per_month"]


def test_a_gpu_is_rented_singly(tmp_path: Path) -> None:
    plan = plan_json(tmp_path, QWEN_7B, "--gpu", "h100", "--num-gpus", "1")
    assert plan["fleet"]["rented_gpus"] == 1
    source = plan["hardware"]["price_source"]
    assert "2026-" in source
    assert plan["cost"]["usd_per_hour"] == pytest.approx(3.99)


def test_tensor_parallelism_is_priced_as_one_machine(tmp_path: Path) -> None:
    """Four GPUs of a machine that is sold by eight are not four machines of one GPU."""
    single = {"num_gpus": 1, "usd_per_hour": 2.0, "source": "x", "date": "2026-01-01"}
    offers = [single, *MACHINES["offers"]]
    plan = plan_json(tmp_path, QWEN_7B, "--gpu", "h100", "--tensor-parallel", "4",
                     *catalogue(tmp_path, MACHINES | {"offers": offers}))  # fmt: skip
    assert plan["cost"]["usd_per_hour"] == pytest.approx(80.0)


def test_four_replicas_take_the_cheapest_machines_that_hold_one(tmp_path: Path) -> None:
    single = {"num_gpus": 1, "usd_per_hour": 2.0, "source": "x", "date": "2026-01-01"}
    offers = [single, *MACHINES["offers"]]
    plan = plan_json(tmp_path, QWEN_7B, "--gpu", "h100", "--num-gpus", "4", "--tensor-parallel",
                     "1", *catalogue(tmp_path, MACHINES | {"offers": offers}))  # fmt: skip
    assert plan["cost"]["usd_per_hour"] == pytest.approx(8.0)
    assert plan["fleet"]["rented_machines"] == 4


def test_a_gpu_that_is_sold_by_eight_costs_the_machine(tmp_path: Path) -> None:
    plan = plan_json(tmp_path, QWEN_7B, "--gpu", "h100", "--num-gpus", "1",
                     *catalogue(tmp_path, MACHINES))  # fmt: skip
    assert plan["cost"]["usd_per_hour"] == pytest.approx(80.0)
    assert plan["fleet"]["rented_gpus"] == 8
    assert plan["hardware"]["usd_per_hour"] == pytest.approx(10.0)


def test_the_price_is_unknown_where_no_machine_has_that_many_gpus(tmp_path: Path) -> None:
    plan = plan_json(tmp_path, LLAMA_70B, "--gpu", "a100-40gb", "--tensor-parallel", "8",
                     *catalogue(tmp_path, {"name": "a100-40gb", "offers": []}))  # fmt: skip
    assert plan["cost"]["usd_per_hour"] is None
    assert plan["hardware"]["usd_per_hour"] is None
    assert "a replica needs 8 GPUs of one machine" in plan["hardware"]["price_source"]


def test_a_users_price_of_one_gpu_buys_any_size(tmp_path: Path) -> None:
    plan = plan_json(tmp_path, LLAMA_70B, "--gpu", "h100-pcie", "--tensor-parallel", "4",
                     "--usd-per-gpu-hour", "2.5")  # fmt: skip
    assert plan["cost"]["usd_per_hour"] == 10.0


@pytest.mark.parametrize(
    "words",
    [
        ("plan", QWEN_7B, "--gpu", "h100"),
        ("plan", "replay", "recording.jsonl"),
        ("deploy", "render", "--tier", "startup", "--out", "x"),
    ],
)
def test_the_price_of_a_gpu_and_of_a_machine_have_two_names(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, [*words, "--usd-per-hour", "2"])
    assert result.exit_code == 2
    assert "No such option '--usd-per-hour'" in result.stderr
    assert "--usd-per-gpu-hour" in result.stderr


def test_a_price_in_a_users_file_replaces_what_is_sold(tmp_path: Path) -> None:
    plan = plan_json(tmp_path, QWEN_7B, "--gpu", "h100", "--num-gpus", "1",
                     *catalogue(tmp_path, {"name": "h100", "usd_per_hour": 1.5}))  # fmt: skip
    assert plan["cost"]["usd_per_hour"] == pytest.approx(1.5)


@pytest.mark.parametrize("wrong", [{"usd_per_gpu_hour": 0}, {"num_gpus": [0]}])
def test_an_offer_of_single_gpus_has_positive_figures(
    wrong: dict[str, Any], tmp_path: Path
) -> None:
    offer = {"usd_per_gpu_hour": 2.0, "num_gpus": [1], "source": "x", "date": "2026-01-01"}
    gpu = {"name": "h100", "gpu_offers": [offer | wrong]}
    result = run_plan(QWEN_7B, "--gpu", "h100", *catalogue(tmp_path, gpu))
    assert result.exit_code == 2
    assert f"{next(iter(wrong))} of h100 is 0" in result.stderr
