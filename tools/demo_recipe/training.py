"""The training loop: seeded and resumable; a step depends on the weights and its number only."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.progress import Progress
from torch import Tensor

from demo_recipe.dataset import Dataset, TrainingBatch
from demo_recipe.model import Qwen2
from paceline.foundation.distillation.checkpoint import load_state, save_state
from paceline.foundation.distillation.losses import forward_kl
from paceline.foundation.distillation.optimizer import build_optimizers, descend
from paceline.foundation.distillation.rates import rate_factor


@dataclass(frozen=True, slots=True)
class Lesson:
    """The kinds of rows (`Dataset.batch`) that are used until a fraction of the steps is done."""

    until: float
    shares: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Schedule:
    """The length of a training, in steps of `rows` rows, and its lessons."""

    num_steps: int
    rows: int
    decay_fraction: float = 0.4
    """Fraction of the steps over which the rate decays to zero; 0.2 to 0.5 give similar results."""
    lessons: tuple[Lesson, ...] = (Lesson(1.0, {"tasks": 0.5}),)
    save_every: int = 50

    def shares(self, step: int) -> Mapping[str, float]:
        done = step / self.num_steps
        return next(
            (lesson.shares for lesson in self.lessons if done < lesson.until),
            self.lessons[-1].shares,
        )


Loss = Callable[[Qwen2, TrainingBatch], Tensor]


def next_token_loss(model: Qwen2, batch: TrainingBatch) -> Tensor:
    """Weighted mean of the cross entropy in nats per token."""
    tokens = torch.from_numpy(batch.tokens.astype("int64"))
    logits = model(tokens[:, :-1]).float()
    each = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].reshape(-1), reduction="none")
    return _weighted_mean(each, batch)


def distillation_loss(teacher: Qwen2) -> Loss:
    """Weighted mean of KL(teacher || student) in nats per token on the same text."""
    teacher.eval()

    def loss(student: Qwen2, batch: TrainingBatch) -> Tensor:
        tokens = torch.from_numpy(batch.tokens.astype("int64"))[:, :-1]
        with torch.no_grad():
            target_logits = teacher(tokens).float().flatten(0, 1)
        draft_logits = student(tokens).float().flatten(0, 1)
        return _weighted_mean(forward_kl(target_logits, draft_logits), batch)

    return loss


def _weighted_mean(each: Tensor, batch: TrainingBatch) -> Tensor:
    weights = torch.from_numpy(batch.weights[:, 1:].astype("float32")).reshape(-1)
    return (each * weights).sum() / weights.sum()


def train(
    model: Qwen2, data: Dataset, schedule: Schedule, folder: Path, *, seed: int, loss: Loss
) -> None:
    """Train `model` in place until the schedule ends, continuing from a state in `folder`.

    Writes `state.pt` atomically every `save_every` steps, and one line of JSON per step to
    `log.jsonl`. With the same seed, rows and thread count a resumed run equals an uninterrupted
    one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    optimizers = build_optimizers(model)
    step = _restore(folder, model, optimizers)
    model.train()
    log = (folder / "log.jsonl").open("a")
    with Progress(disable=not sys.stdout.isatty()) as progress, log:
        bar = progress.add_task(folder.name, total=schedule.num_steps, completed=step)
        while step < schedule.num_steps:
            started = time.perf_counter()
            factor = rate_factor(step, schedule.num_steps, schedule.decay_fraction)
            batch = data.batch(seed, step, schedule.rows, schedule.shares(step))
            with torch.autocast("cpu", dtype=torch.bfloat16):
                value = loss(model, batch)
            descend(model, optimizers, value, factor)
            step += 1
            entry = {"step": step, "loss": value.item(), "rate": factor}
            log.write(json.dumps({**entry, "seconds": time.perf_counter() - started}) + "\n")
            log.flush()
            progress.update(bar, completed=step, description=f"{folder.name} {value.item():.3f}")
            if step % schedule.save_every == 0 or step == schedule.num_steps:
                _save(folder, model, optimizers, step)


def _save(folder: Path, model: Qwen2, optimizers: list[torch.optim.Optimizer], step: int) -> None:
    state = {
        "shape": asdict(model.shape),
        "model": model.state_dict(),
        "optimizers": [o.state_dict() for o in optimizers],
        "step": step,
    }
    save_state(folder / "state.pt", state)


def _restore(folder: Path, model: Qwen2, optimizers: list[torch.optim.Optimizer]) -> int:
    path = folder / "state.pt"
    if not path.exists():
        return 0
    state = load_state(path)
    if state["shape"] != asdict(model.shape):
        raise ValueError(
            f"{path} was trained with the shape {state['shape']}; the requested shape is "
            f"{asdict(model.shape)}. Continue in another folder (--work), or remove this one"
        )
    model.load_state_dict(state["model"])
    for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(saved)
    return int(state["step"])
