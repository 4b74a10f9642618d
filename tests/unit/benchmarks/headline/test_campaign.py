"""What a campaign runs, keeps and saves."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from benchmarks.headline import campaign
from benchmarks.headline.arms import parse_arms
from benchmarks.headline.cells import parse_cells
from benchmarks.headline.turns import Slice

ARMS = parse_arms(["naive", "vllm", "paceline"])
CELLS = parse_cells(["chat-1", "chat-64"])
PLAN = {"repeats": 2, "seed": 0}
Asked = list[tuple[str, str, int]]


@pytest.fixture(autouse=True)
def _bandwidth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(campaign, "measure_bandwidth", lambda: 2e10)


def answer(name: str, asked: Asked, part: Slice, *, num_errors: int = 0) -> dict[str, Any]:
    """Ten tokens in two seconds."""
    asked.append((name, part.cell.name, part.repeat))
    requests = [[1, 5, 1.0, 2.0, None]] * part.cell.num_requests
    failure = "lost" if num_errors else None
    return {"seconds": 2.0, "requests": requests, "num_errors": num_errors, "error": failure}


def run(document: dict[str, Any], saved: list[int]) -> Asked:
    asked: Asked = []
    runners = {arm.name: functools.partial(answer, arm.name, asked) for arm in ARMS}
    runs = document["runs"]
    campaign.run_campaign(document, ARMS, CELLS, runners, lambda: saved.append(len(runs)))
    return asked


def new_document() -> dict[str, Any]:
    return {"plan": PLAN, "runs": [], "bandwidth_bytes_per_s": {}}


def test_every_arm_runs_its_slices_and_each_repeat_is_saved() -> None:
    """A repeat has chat-1 with three arms and chat-64 without naive."""
    document, saved = new_document(), list[int]()
    asked = run(document, saved)
    assert saved == [5, 10]
    assert sorted(asked) == sorted(
        (arm.name, cell.name, repeat)
        for arm in ARMS
        for cell in CELLS
        for repeat in range(2)
        if (arm.name, cell.name) != ("naive", "chat-64")
    )
    runs = document["runs"]
    assert [(run["arm"], run["cell"], run["repeat"]) for run in runs] == asked
    assert document["bandwidth_bytes_per_s"] == {"0": 2e10, "1": 2e10}


def test_an_unfinished_repeat_is_run_again_and_a_complete_one_is_kept() -> None:
    document = new_document()
    run(document, [])
    kept = document["runs"][:5]
    document["runs"] = document["runs"][:7]
    asked = run(document, [])
    assert document["runs"][:5] == kept
    assert len(document["runs"]) == 10
    assert {repeat for _, _, repeat in asked} == {1}


def test_the_warm_up_is_short_and_ends_the_run_when_a_server_fails() -> None:
    asked: Asked = []
    runners = {arm.name: functools.partial(answer, arm.name, asked) for arm in ARMS}
    campaign.warm_up(ARMS, CELLS, runners)
    assert len(asked) == 5
    runners["paceline"] = functools.partial(answer, "paceline", asked, num_errors=1)
    with pytest.raises(RuntimeError, match="paceline failed in the warm-up: lost"):
        campaign.warm_up(ARMS, CELLS, runners)
