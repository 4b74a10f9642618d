"""The bill is that of machines that are sold: whole ones, and none that no price buys."""

from __future__ import annotations

from pathlib import Path

import pytest

from unit.plan.planning import LLAMA_70B, QWEN_7B, plan_json


@pytest.mark.parametrize("model", [LLAMA_70B, QWEN_7B])
def test_the_chosen_hardware_is_a_machine_that_is_sold(model: str, tmp_path: Path) -> None:
    """A GPU that is sold alone is not chosen for a model that needs several."""
    hardware = plan_json(tmp_path, model)["hardware"]
    assert hardware["num_gpus"] == hardware["rented_machine"]["num_gpus"]
    assert hardware["tensor_parallel"] <= hardware["rented_machine"]["num_gpus"]
    assert not (model == LLAMA_70B and hardware["name"] == "h100-pcie")


def test_tensor_parallelism_is_priced_as_one_machine(tmp_path: Path) -> None:
    """Four L40S of one machine are a g6e.12xlarge, not four machines of one GPU."""
    plan = plan_json(tmp_path, QWEN_7B, "--gpu", "l40s", "--tensor-parallel", "4",
                     "--draft", "none")  # fmt: skip
    assert plan["cost"]["usd_per_hour"] == pytest.approx(10.4926)
    assert "g6e.12xlarge" in plan["hardware"]["price_source"]


def test_four_replicas_take_the_cheapest_machines_that_hold_one(tmp_path: Path) -> None:
    plan = plan_json(tmp_path, QWEN_7B, "--gpu", "l40s", "--num-gpus", "4",
                     "--tensor-parallel", "1")  # fmt: skip
    assert plan["cost"]["usd_per_hour"] == pytest.approx(4 * 1.861)
    assert plan["fleet"]["rented_machines"] == 4


def test_a_gpu_that_is_sold_by_eight_costs_the_machine(tmp_path: Path) -> None:
    plan = plan_json(tmp_path, QWEN_7B, "--gpu", "b200", "--num-gpus", "1")
    assert plan["cost"]["usd_per_hour"] == pytest.approx(113.93)
    assert plan["fleet"]["rented_gpus"] == 8
    assert plan["hardware"]["usd_per_hour"] == pytest.approx(113.93 / 8)


def test_the_price_is_unknown_where_no_machine_has_that_many_gpus(tmp_path: Path) -> None:
    plan = plan_json(tmp_path, LLAMA_70B, "--gpu", "h100-pcie", "--tensor-parallel", "4")
    assert plan["cost"]["usd_per_hour"] is None
    assert plan["hardware"]["usd_per_hour"] is None
    assert "a replica needs 4 GPUs of one machine" in plan["hardware"]["price_source"]


def test_a_users_price_of_one_gpu_buys_any_size(tmp_path: Path) -> None:
    plan = plan_json(tmp_path, LLAMA_70B, "--gpu", "h100-pcie", "--tensor-parallel", "4",
                     "--usd-per-hour", "2.5")  # fmt: skip
    assert plan["cost"]["usd_per_hour"] == 10.0
