"""The training loop: it learns, resumes exactly, stops between steps, and fits its minutes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from paceline.foundation.models.interruption import StopRequest
from paceline.foundation.models.models import load_model
from paceline.foundation.models.progress import draft_progress
from paceline.foundation.models.values import Answer, DraftError, Interrupted, Sampling
from paceline.workbench.draft.training import distil as distil_module
from paceline.workbench.draft.training.distil import (
    TIMED_STEPS,
    TrainingPlan,
    TrainingState,
    distil,
)
from paceline.workbench.draft.training.model_kind import mean_loss
from unit.draft.conftest import TinyPair

CPU = torch.device("cpu")
ANSWERS = [
    Answer(f"{n}", f"{n}", Sampling(0.0), (4 + n, 9, 5 + n), tuple(range(10 + n, 18 + n)), 8)
    for n in range(12)
]


@pytest.fixture(scope="module")
def teacher(pair: TinyPair) -> Any:
    return load_model(pair.target, torch.bfloat16, CPU)


def new_student(pair: TinyPair) -> Any:
    return load_model(pair.draft, torch.float32, CPU)


def plan(num_steps: int | None = 6, minutes: float | None = None, **changes: Any) -> TrainingPlan:
    values = {"loss": "forward-kl", "seed": 0, "rate_scale": 1.0, **changes}
    return TrainingPlan(num_steps=num_steps, minutes=minutes, **values)


def run(
    student: Any, teacher: Any, folder: Path, how: TrainingPlan, stop: Any = None, **extra: Any
) -> TrainingState:
    folder.mkdir(exist_ok=True)
    torch.set_num_threads(1)
    with draft_progress() as progress:
        return distil(
            student, partial(mean_loss, teacher=teacher, loss=how.loss), ANSWERS, how, folder,
            progress=progress, stop=stop or StopRequest(), **extra,
        )  # fmt: skip


class _StopAfter:
    """Is set after a number of checks, each of which precedes a step."""

    def __init__(self, steps: int) -> None:
        self._left = steps

    @property
    def is_set(self) -> bool:
        self._left -= 1
        return self._left < 0


def losses(folder: Path) -> list[float]:
    return [json.loads(line)["loss"] for line in (folder / "log.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("loss", ["forward-kl", "tv"])
def test_a_resumed_training_equals_an_uninterrupted_one(
    pair: TinyPair, teacher: Any, tmp_path: Path, loss: str
) -> None:
    whole = new_student(pair)
    run(whole, teacher, tmp_path / "whole", plan(loss=loss))
    with pytest.raises(Interrupted):
        run(new_student(pair), teacher, tmp_path / "part", plan(loss=loss), _StopAfter(4))
    resumed = new_student(pair)
    state = run(resumed, teacher, tmp_path / "part", plan(loss=loss))
    assert (state.step, state.num_steps) == (6, 6)
    for name, weight in whole.state_dict().items():
        assert torch.equal(weight, resumed.state_dict()[name]), name
    assert losses(tmp_path / "part") == losses(tmp_path / "whole")


def test_training_lowers_the_loss(pair: TinyPair, teacher: Any, tmp_path: Path) -> None:
    run(new_student(pair), teacher, tmp_path / "run", plan(60))
    found = losses(tmp_path / "run")
    assert len(found) == 60
    assert found[-1] < 0.7 * found[0]


def test_a_finished_training_takes_no_further_step(
    pair: TinyPair, teacher: Any, tmp_path: Path
) -> None:
    first, again = new_student(pair), new_student(pair)
    run(first, teacher, tmp_path / "run", plan(3))
    run(again, teacher, tmp_path / "run", plan(3))
    assert len(losses(tmp_path / "run")) == 3
    assert torch.equal(first.lm_head.weight, again.lm_head.weight)


def test_minutes_become_the_steps_that_fit(pair: TinyPair, teacher: Any, tmp_path: Path) -> None:
    """By this clock, which advances a second at each reading, a step takes one second."""

    def ticking() -> Iterator[float]:
        now = 0.0
        while True:
            yield now
            now += 1.0

    ticks = ticking()
    state = run(
        new_student(pair), teacher, tmp_path / "run", plan(None, 0.5), clock=lambda: next(ticks)
    )
    assert state.step == state.num_steps == 30
    assert TIMED_STEPS < 30


def test_checkpoints_are_written_every_minute(
    pair: TinyPair, teacher: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three readings of the clock per step, each ten seconds after the one before."""
    saved: list[int] = []

    def note(path: Path, state: Any) -> None:
        saved.append(state["step"])

    monkeypatch.setattr(distil_module, "save_state", note)
    now = iter(range(0, 10_000, 10))
    run(new_student(pair), teacher, tmp_path / "run", plan(5), clock=lambda: float(next(now)))
    assert saved == [2, 4, 5]


def test_steps_that_a_killed_process_repeats_are_logged_once(
    pair: TinyPair, teacher: Any, tmp_path: Path
) -> None:
    """Killed in step 5, after the checkpoint of step 2: the line of step 5 is cut off."""
    run(new_student(pair), teacher, tmp_path / "whole", plan(4))
    with pytest.raises(Interrupted):
        run(new_student(pair), teacher, tmp_path / "part", plan(4), _StopAfter(2))
    with (tmp_path / "part" / "log.jsonl").open("a") as log:
        log.write('{"step": 3, "loss": 0.5}\n{"step": 4, "loss": 0.5}\n{"ste')
    run(new_student(pair), teacher, tmp_path / "part", plan(4))
    assert losses(tmp_path / "part") == losses(tmp_path / "whole")


def test_a_full_disk_is_an_error_that_says_how_to_continue(
    pair: TinyPair, teacher: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path, state: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(distil_module, "save_state", fail)
    with pytest.raises(DraftError, match=r"No space left on device.*--resume"):
        run(new_student(pair), teacher, tmp_path / "run", plan(1))


def test_a_log_that_cannot_be_written_is_an_error_that_says_how_to_continue(
    pair: TinyPair, teacher: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distil_module, "_cut_log", lambda path, last_step: None)
    (tmp_path / "log.jsonl").symlink_to("/dev/full")
    with pytest.raises(DraftError, match=r"log\.jsonl: No space left on device.*--resume"):
        run(new_student(pair), teacher, tmp_path, plan(1))


def test_an_unstable_training_ends_with_an_error_and_keeps_its_checkpoint(
    pair: TinyPair, teacher: Any, tmp_path: Path
) -> None:
    student = new_student(pair)
    student.lm_head.weight.data[5, 0] = float("nan")
    with pytest.raises(DraftError, match=r"loss of step 1 is nan.*--rate-scale"):
        run(student, teacher, tmp_path / "run", plan(5))
    assert not (tmp_path / "run" / "state.pt").exists()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"loss": "mse"}, "loss is 'mse'"),
        ({"minutes": 3.0}, "either num_steps or minutes"),
        ({"num_steps": None}, "either num_steps or minutes"),
    ],
)
def test_bad_plans_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plan(**values)
