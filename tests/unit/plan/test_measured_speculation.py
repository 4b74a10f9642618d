"""The planner says whether to speculate as a CPU machine measured it, in 95 of 100 cells.

A cell is a batch size and a draft length of a model pair; its sign is whether the rate exceeds that
of draft length 0. The engine was stock vLLM, configured to speculate: at length 0 it still runs the
rejection sampler and, with a draft model, one draft pass.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from paceline.foundation.capacity.model.hf_config import read_model_config
from paceline.foundation.capacity.model.weights import PassWork
from paceline.foundation.capacity.speculation import Acceptance, gains
from paceline.foundation.capacity.step_time import ModelTime, StepTime
from paceline.foundation.planning.sources.catalogue import CPU, load_catalogue
from paceline.foundation.planning.sources.this_machine import Machine
from paceline.workbench.plan import command as plan_command
from unit.capacity.model.configs import LLAMA
from unit.plan.planning import plan_json

DATA = json.loads((Path(__file__).parent / "data" / "measured_speculation.json").read_text())
HARDWARE = load_catalogue().find(CPU, Machine(2, 8 * 1024**3, frozenset()), None).hardware
AMD = Machine(2, 16 * 1024**3, frozenset({"avx512f", "avx512_bf16"}))
DRAFT_LAYERS = 2
FLOAT32_BYTES = 4


def model(params: float, num_layers: int) -> ModelTime:
    """A model of which a pass reads and multiplies all parameters."""
    shape = read_model_config(LLAMA | {"num_hidden_layers": num_layers})
    work = PassWork(params * FLOAT32_BYTES, 0.0, 0, 0, params)
    return ModelTime(shape, work, (), HARDWARE, 1, HARDWARE.flops_per_s["float32"], FLOAT32_BYTES)


def held_at_zero_s(times: StepTime, batch: int) -> float:
    """A step at draft length 0 of an engine that is configured to speculate."""
    overheads = HARDWARE.overheads
    seconds = times.decode_s(batch, 0) + overheads.verify_s
    if times.draft is not None:
        pass_s = times.draft.pass_s(batch, batch, 0)
        seconds += overheads.draft_pass_s + overheads.draft_request_s * batch + pass_s
    return seconds


def predicted_gains(row: dict[str, Any]) -> dict[int, float]:
    draft = None if row["draft_params"] is None else model(row["draft_params"], DRAFT_LAYERS)
    times = StepTime(model(row["target_params"], row["target_layers"]), draft)
    held_rate = row["batch"] / held_at_zero_s(times, row["batch"])
    lengths = [int(length) for length in row["rates"] if length != "0"]
    found = gains(
        times,
        Acceptance(row["accepted"]),
        requests=row["batch"],
        context_tokens=0,
        draft_lengths=lengths,
    )
    return {one.draft_length: one.tokens_per_s / held_rate - 1 for one in found}


@pytest.mark.parametrize(
    ("text", "acceptance", "low", "high"),
    [("predictable", 0.96, 1.66, 1.95), ("hard", 0.6, 0.91, 1.05)],
)
def test_the_bundled_pair_gains_on_a_cpu_what_was_measured(
    text: str, acceptance: float, low: float, high: float, tmp_path: Path
) -> None:
    """Over no speculation, in docs/experiments/speculation.md: one request, and eight."""
    requests = {"predictable": "1", "hard": "8"}[text]
    two_cores = mock.patch.object(plan_command, "read_machine", return_value=AMD)
    with two_cores:
        plan = plan_json(
            tmp_path, "bundled", "--gpu", "cpu", "--acceptance", str(acceptance),
            "--concurrency", requests, "--prompt-tokens", "70", "--output-tokens", "127",
        )  # fmt: skip
    rates = [one["output_tokens_per_s"] for one in plan["candidates"]]
    assert low <= rates[1] / rates[0] <= high


def test_the_bundled_pair_is_planned_with_its_measured_acceptance(tmp_path: Path) -> None:
    plan = plan_json(tmp_path, "bundled", "--gpu", "cpu", "--concurrency", "1")
    assert plan["draft"]["is_planned"] is True
    assert plan["draft"]["acceptance"]["source"].startswith("measured on this pair")
    assert plan["operating_point"]["speculation_gain"] > 0.3


def test_the_sign_of_speculation_is_right_in_95_of_100_cells() -> None:
    wrong, cells = [], 0
    for row in DATA["rows"]:
        for length, predicted in predicted_gains(row).items():
            cells += 1
            measured = row["rates"][str(length)] / row["rates"]["0"] - 1
            if (measured > 0) != (predicted > 0):
                wrong.append((row, length, round(measured, 3), round(predicted, 3)))
    assert cells == 48
    assert len(wrong) <= 0.05 * cells, wrong
