"""What a campaign runs, keeps and saves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from benchmarks.headline.arms import parse_arms
from benchmarks.headline.campaign import measure_offered_rate, run_campaign, warm_up
from benchmarks.headline.cells import parse_cells
from benchmarks.headline.turns import Slice

ARMS = parse_arms(["vllm", "paceline"])
CELLS = parse_cells(["mixed-1", "mixed-16"])
PLAN = {"repeats": 2, "slices": 2, "seed": 0}


@dataclass
class Runner:
    """Answers every slice with ten tokens in two seconds; `num_errors` of its requests fail."""

    name: str
    asked: list[tuple[str, str, int]]
    num_errors: int = 0
    rates: list[float] = field(default_factory=list)

    def run(self, part: Slice, offered_per_s: float) -> dict[str, Any]:
        self.asked.append((self.name, part.cell.name, part.number))
        self.rates.append(offered_per_s)
        requests = [[1, 5, 1.0, 2.0, None]] * part.cell.num_requests
        failure = "lost" if self.num_errors else None
        return {
            "seconds": 2.0, "requests": requests, "num_errors": self.num_errors, "error": failure,
        }  # fmt: skip


def campaign(runs: list[dict[str, Any]], saved: list[int]) -> list[tuple[str, str, int]]:
    asked: list[tuple[str, str, int]] = []
    runners = {arm.name: Runner(arm.name, asked) for arm in ARMS}
    run_campaign(
        PLAN, ARMS, CELLS, runners, 3.0, runs, lambda: saved.append(len(runs)), model="twin"
    )
    assert all(rate == 3.0 for runner in runners.values() for rate in runner.rates)
    return asked


def test_every_arm_runs_every_slice_and_each_repeat_is_saved() -> None:
    runs: list[dict[str, Any]] = []
    saved: list[int] = []
    asked = campaign(runs, saved)
    assert saved == [8, 16]  # 2 cells, 2 slices, 2 arms per repeat
    assert sorted(asked) == sorted(
        (arm.name, cell.name, number) for arm in ARMS for cell in CELLS for number in range(4)
    )
    assert [(run["arm"], run["cell"], run["slice"]) for run in runs] == asked
    assert [run["position"] for run in runs[:4]] == [0, 1, 0, 1]


def test_an_unfinished_repeat_is_run_again_and_a_complete_one_is_kept() -> None:
    runs: list[dict[str, Any]] = []
    campaign(runs, [])
    kept, other = runs[:8], {"model": "bundled", "repeat": 1}
    resumed = [*kept, *runs[8:11], other]
    asked = campaign(resumed, [])
    assert resumed[:8] == kept
    assert other in resumed
    assert len(resumed) == 17
    assert {number for _, _, number in asked} == {2, 3}


def test_the_warm_up_ends_the_run_when_a_server_fails() -> None:
    asked: list[tuple[str, str, int]] = []
    runners = {arm.name: Runner(arm.name, asked) for arm in ARMS}
    warm_up(ARMS, CELLS, runners)
    assert len(asked) == 4
    runners["paceline"].num_errors = 1
    with pytest.raises(RuntimeError, match="paceline failed in the warm-up: lost"):
        warm_up(ARMS, CELLS, runners)


def test_the_offered_rate_is_a_fraction_of_what_plain_vllm_answers() -> None:
    """32 requests in 2 s, of which a half."""
    assert measure_offered_rate(CELLS, Runner("vllm", []), 0.5) == 8.0
