"""The driver feeds a recording while there is one, and serves on when it fails."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from paceline.foundation.recording.reading import read_recording
from paceline.runtime.engine.recording.other_lengths import PERIOD, TURN
from paceline.runtime.engine.recording.recorder import Recorder
from paceline.runtime.governor.values import DraftPlan
from unit.engine.scheduler.driver.fakes import (
    Output,
    Request,
    Scheduler,
    make_driver,
    run_step,
)
from unit.engine.scheduler.driver.fakes import Recorder as Planned
from unit.recording.lines import HEADER


class Recorded(Request):
    """A request with what a recording reads."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.request_id = name
        self.num_output_tokens = 0
        self.sampling_params.extra_args = {"paceline_max_draft_length": 3}
        self.sampling_params.seed = None
        self.sampling_params.min_p = 0.0
        self.sampling_params.logit_bias = None


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "r.jsonl"


def drive(driver: Any) -> None:
    """A request arrives, drafts 3 tokens of which 2 are accepted, and ends with 4 tokens."""
    request = Recorded("a")
    driver.add_request(request)
    scheduler = Scheduler(a=request)
    run_step(driver, scheduler, Output({"a": 1}))
    request.num_output_tokens = 1
    drafted = Output({"a": 4}, {"a": [1, 2, 3]})
    run_step(driver, scheduler, drafted, verified=[("a", 3, 2)])
    request.num_output_tokens = 4
    scheduler.requests = {}
    run_step_without_requests(driver, scheduler, Output({"a": 1}), request)


def run_step_without_requests(driver: Any, scheduler: Scheduler, output: Output, gone: Any) -> None:
    """A step in which the request ends."""
    scheduler.requests = {"a": gone}
    driver.before_schedule(scheduler)
    driver.before_step(scheduler, output)
    scheduler.requests = {}
    driver.after_step(scheduler, output)


def test_requests_and_steps_are_recorded(file: Path) -> None:
    driver = make_driver(Planned(DraftPlan(3, "planted")), recorder=Recorder(file, lambda: HEADER))
    driver.record({"action": "start"})
    drive(driver)
    driver.record({"action": "stop"})
    recording = read_recording(file)
    (request,) = recording.requests
    assert (request.prompt_tokens, request.output_tokens, request.draft_cap) == (20, 4, 3)
    assert (request.tried, request.accepted) == ((1, 1, 1), (1, 1, 0))
    assert sum(cell.count for block in recording.blocks for cell in block.cells) == 3


def test_a_request_has_ended_before_the_drafts_of_its_last_step_are_made(file: Path) -> None:
    """Its client may stop the recording as soon as the answer is complete."""
    policy = Planned(DraftPlan(3, "planted"))
    recorder = Recorder(file, lambda: HEADER)
    driver = make_driver(policy, recorder=recorder, drafter_rests=True)
    driver.record({"action": "start"})
    drive(driver)
    driver.record({"action": "stop"})
    (request,) = read_recording(file).requests
    assert request.first_token_s is not None
    assert request.ended_s is not None
    assert (request.tried, request.accepted) == ((1, 1, 1), (1, 1, 0))
    assert len(policy.samples) == 2  # the last step still makes drafts


def test_a_driver_without_a_recorder_refuses() -> None:
    with pytest.raises(ValueError, match="does not record"):
        make_driver().record({"action": "status"})


def test_closing_the_driver_ends_the_recording(file: Path) -> None:
    driver = make_driver(recorder=Recorder(file, lambda: HEADER))
    driver.record({"action": "start"})
    driver.close()
    end = read_recording(file).end
    assert end is not None
    assert end.reason == "engine ended"


@pytest.mark.parametrize("method", ["request_added", "step_answered", "step_finished"])
def test_an_error_while_recording_is_counted_and_serving_continues(
    file: Path, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise KeyError("planted")

    policy = Planned(DraftPlan(3, "planted"))
    driver = make_driver(policy, recorder=Recorder(file, lambda: HEADER))
    driver.record({"action": "start"})
    monkeypatch.setattr(Recorder, method, fail)
    drive(driver)
    assert len(policy.samples) == 3
    assert driver.record({"action": "status"})["ended"] == "failed"


def test_a_recording_may_take_other_lengths_up_to_the_ceiling(file: Path) -> None:
    driver = make_driver(Planned(DraftPlan(3, "planted")), recorder=Recorder(file, lambda: HEADER))
    driver.set({"ceiling": 2})
    driver.record({"action": "start", "vary_draft_length": True})
    scheduler = Scheduler(a=Recorded("a"))
    lengths = []
    for _ in range(4 * PERIOD):
        output = Output({"a": 1})
        driver.before_step(scheduler, output)
        lengths.append(output.num_spec_tokens_to_schedule)
    runs = [(length, len(list(group))) for length, group in groupby(lengths)]
    assert [run for run in runs if run[0] != 2] == [(0, TURN), (1, TURN)]
    assert driver.state()["reason"] == "other lengths, for the recording; limited by the ceiling"
