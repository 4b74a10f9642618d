"""The training loop: seeded, resumable, and safe to interrupt at any moment.

A step depends on the weights, the state of the optimizers and its number only. With a number of
steps, a resumed training therefore ends with the weights of an uninterrupted one (same machine and
threads). With a number of minutes, the first steps are timed, and the number of steps that fits is
fixed then and kept over interruptions: the learning rate has to know its end.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from paceline.foundation.distillation.checkpoint import load_state, save_state
from paceline.foundation.distillation.losses import LOSSES
from paceline.foundation.distillation.optimizer import build_optimizers, descend
from paceline.foundation.distillation.rates import WARM_UP_STEPS, rate_factor
from paceline.foundation.models.interruption import StopRequest
from paceline.foundation.models.progress import DraftProgress
from paceline.foundation.models.values import Answer, DraftError, Interrupted
from paceline.foundation.results.files import write_bytes
from paceline.workbench.draft.training.examples import batches_from
from paceline.workbench.draft.training.kind import LossOf

CHECKPOINT_EVERY_S = 60.0
TIMED_STEPS = WARM_UP_STEPS // 2
"""Steps that are timed to plan a training of some minutes. They are within the warm-up, in which
the learning rate does not depend on the length."""
DECAY_FRACTION = 0.5
"""Chosen: half of the steps decay; 0.2 to 0.5 gave similar results in training the bundled pair."""


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """How to train. Either `num_steps` or `minutes` is given."""

    loss: str
    """Of `paceline.foundation.distillation.losses.LOSSES`."""
    seed: int
    num_steps: int | None
    minutes: float | None
    rate_scale: float
    """Of the learning rates that suit a model trained from scratch."""
    adam_scale: float = 1.0
    """Of the rate of all but the matrices inside the layers, in addition."""

    def __post_init__(self) -> None:
        if self.loss not in LOSSES:
            raise ValueError(f"loss is {self.loss!r}; it must be one of {', '.join(LOSSES)}")
        if (self.num_steps is None) == (self.minutes is None):
            raise ValueError("a training needs either num_steps or minutes")


@dataclass(slots=True)
class TrainingState:
    """How far a training is."""

    step: int = 0
    num_steps: int | None = None
    """None until the first steps are timed."""
    seconds: float = 0.0
    """In steps, over all runs of this training."""
    last_loss: float = math.nan

    @property
    def is_complete(self) -> bool:
        """Whether no step is left."""
        return self.num_steps is not None and self.step >= self.num_steps


def distil(
    student: Any,
    loss_of: LossOf,
    answers: Sequence[Answer],
    plan: TrainingPlan,
    folder: Path,
    *,
    progress: DraftProgress,
    stop: StopRequest,
    clock: Callable[[], float] = time.perf_counter,
) -> TrainingState:
    """Train `student` in place, continuing from a state in `folder`; returns the final state.

    Writes `state.pt` every minute, when interrupted and at the end, and a line to `log.jsonl` per
    step; lines of steps after the state that is continued are dropped. `student` has float32
    weights, and `loss_of` is the loss to descend. Raises Interrupted after a signal, with the state
    on disk.
    """
    path = folder / "state.pt"
    optimizers = build_optimizers(student, plan.rate_scale, plan.adam_scale)
    state = _restore(path, student, optimizers) or TrainingState(num_steps=plan.num_steps)
    progress.begin("distillation", state.num_steps, state.step)
    # Evaluation mode has no dropout: a step must not depend on a generator that is not on disk.
    student.eval().requires_grad_(True)
    saved_at = clock()
    batches = batches_from(answers, seed=plan.seed, step=state.step)
    _cut_log(folder / "log.jsonl", state.step)
    with (folder / "log.jsonl").open("ab", buffering=0) as log:
        while not state.is_complete:
            if stop.is_set:
                _save(path, student, optimizers, state)
                raise Interrupted
            started = clock()
            loss = loss_of(student, next(batches))
            # Until the length is known, the rate is that of the warm-up, whatever the length.
            num_steps = state.num_steps or WARM_UP_STEPS
            descend(student, optimizers, loss, rate_factor(state.step, num_steps, DECAY_FRACTION))
            state.last_loss = loss.item()
            state.step += 1
            state.seconds += clock() - started
            _log(log, state)
            if not math.isfinite(state.last_loss):
                raise DraftError(
                    f"the loss of step {state.step} is {state.last_loss}; the training is "
                    "unstable. Lower --rate-scale and start in another folder"
                )
            if state.num_steps is None and state.step >= TIMED_STEPS:
                assert plan.minutes is not None
                state.num_steps = _steps_that_fit(plan.minutes, state)
            progress.update(state.step, total=state.num_steps, note=f"loss {state.last_loss:.3f}")
            if clock() - saved_at >= CHECKPOINT_EVERY_S:
                _save(path, student, optimizers, state)
                saved_at = clock()
    _save(path, student, optimizers, state)
    student.requires_grad_(False)
    return state


def _steps_that_fit(minutes: float, state: TrainingState) -> int:
    return max(state.step, round(minutes * 60 / (state.seconds / state.step)))


def _cut_log(path: Path, last_step: int) -> None:
    """Keep the lines up to `last_step`: a killed process has logged steps that are repeated."""
    if not path.exists():
        return
    lines = path.read_bytes().splitlines(keepends=True)
    try:
        write_bytes(path, b"".join(line for line in lines if _step_of(line) <= last_step))
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path | str, error: OSError) -> DraftError:
    return DraftError(
        f"cannot write {path}: {error.strerror}. Free space and continue with --resume from the "
        "last checkpoint"
    )


def _step_of(line: bytes) -> float:
    """The number of the step; infinite for a line that was cut off."""
    try:
        return int(json.loads(line)["step"])
    except ValueError:
        return math.inf


def _log(log: Any, state: TrainingState) -> None:
    line = {"step": state.step, "loss": state.last_loss, "seconds": round(state.seconds, 3)}
    try:
        log.write(json.dumps(line).encode() + b"\n")
    except OSError as error:
        raise _unwritable(log.name, error) from error


def _save(
    path: Path, student: Any, optimizers: Sequence[torch.optim.Optimizer], state: TrainingState
) -> None:
    content: Mapping[str, Any] = {
        "step": state.step,
        "num_steps": state.num_steps,
        "seconds": state.seconds,
        "last_loss": state.last_loss,
        "model": student.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in optimizers],
    }
    try:
        save_state(path, content)
    except OSError as error:
        raise DraftError(
            f"cannot write the checkpoint {path}: {error.strerror}. Free space and continue with "
            "--resume from the checkpoint before it"
        ) from error


def _restore(
    path: Path, student: Any, optimizers: Sequence[torch.optim.Optimizer]
) -> TrainingState | None:
    if not path.exists():
        return None
    content = load_state(path)
    student.load_state_dict(content["model"])
    for optimizer, saved in zip(optimizers, content["optimizers"], strict=True):
        optimizer.load_state_dict(saved)
    return TrainingState(
        content["step"], content["num_steps"], content["seconds"], content["last_loss"]
    )
