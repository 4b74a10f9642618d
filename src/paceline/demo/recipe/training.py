"""The training loop: seeded and resumable; a step depends on the weights and its number only.

The learning rate warms up, stays constant, and decays to zero over the last part (warm-up, stable,
decay), so the length of a run can change while its rate is still constant.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.progress import Progress
from torch import Tensor

from paceline.demo.recipe.dataset import Dataset, TrainingBatch
from paceline.demo.recipe.model import Qwen2
from paceline.demo.recipe.optimizer import build_optimizers

WARM_UP_STEPS = 40


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

    def rate_factor(self, step: int) -> float:
        if step < WARM_UP_STEPS:
            return (step + 1) / WARM_UP_STEPS
        decay_steps = max(1, int(self.num_steps * self.decay_fraction))
        return min(1.0, (self.num_steps - step) / decay_steps)

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
    """Weighted mean of KL(teacher || student) in nats per token on the same text.

    Forward KL bounds the total variation (Pinsker), and one minus the total variation is the
    probability that a sampled draft token is accepted (Leviathan et al., 2023, arXiv 2211.17192).
    """
    teacher.eval()

    def loss(student: Qwen2, batch: TrainingBatch) -> Tensor:
        tokens = torch.from_numpy(batch.tokens.astype("int64"))[:, :-1]
        with torch.no_grad():
            target_probs = teacher(tokens).float().softmax(dim=-1).flatten(0, 1)
        draft_logits = student(tokens).float().flatten(0, 1)
        cross = F.cross_entropy(draft_logits, target_probs, reduction="none")
        with torch.no_grad():
            entropy = -torch.special.xlogy(target_probs, target_probs).sum(dim=-1)
        return _weighted_mean(cross - entropy, batch)

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
            factor = schedule.rate_factor(step)
            for optimizer in optimizers:
                for group in optimizer.param_groups:
                    group["lr"] = group["initial_lr"] * factor
            batch = data.batch(seed, step, schedule.rows, schedule.shares(step))
            with torch.autocast("cpu", dtype=torch.bfloat16):
                value = loss(model, batch)
            value.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
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
    torch.save(state, folder / "state.tmp")
    os.replace(folder / "state.tmp", folder / "state.pt")


def _restore(folder: Path, model: Qwen2, optimizers: list[torch.optim.Optimizer]) -> int:
    path = folder / "state.pt"
    if not path.exists():
        return 0
    state = torch.load(path, weights_only=True)
    if state["shape"] != asdict(model.shape):
        raise ValueError(
            f"{path} was trained with the shape {state['shape']}; the requested shape is "
            f"{asdict(model.shape)}. Continue in another folder (--work), or remove this one"
        )
    model.load_state_dict(state["model"])
    for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(saved)
    return int(state["step"])
