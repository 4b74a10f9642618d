"""The training loop: resuming, states of another shape, and the distillation loss."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from demo_recipe import dataset
from demo_recipe.model import Qwen2
from demo_recipe.training import Schedule, distillation_loss, next_token_loss, train

from unit.tools.demo_recipe.shapes import TINY


def test_training_learns_and_a_resumed_run_equals_an_uninterrupted_one(
    data: Path, tmp_path: Path
) -> None:
    rows = dataset.Dataset(data)
    torch.set_num_threads(1)

    def run(folder: Path, *stops: int) -> Qwen2:
        for stop in stops:
            torch.manual_seed(0)
            model = Qwen2(TINY)
            schedule = Schedule(num_steps=stop, rows=1, save_every=1, decay_fraction=0.0)
            train(model, rows, schedule, folder, seed=0, loss=next_token_loss)
        return model

    whole, resumed = run(tmp_path / "whole", 6), run(tmp_path / "resumed", 3, 6)
    for a, b in zip(whole.parameters(), resumed.parameters(), strict=True):
        assert torch.equal(a, b)
    losses = [json.loads(line)["loss"] for line in (tmp_path / "whole" / "log.jsonl").open()]
    assert losses[-1] < losses[0]


def test_a_state_of_another_shape_is_an_error(data: Path, tmp_path: Path) -> None:
    schedule = Schedule(num_steps=1, rows=1)
    rows = dataset.Dataset(data)
    train(Qwen2(TINY), rows, schedule, tmp_path, seed=0, loss=next_token_loss)
    other = replace(TINY, rope_theta=5.0)
    with pytest.raises(ValueError, match="Continue in another folder"):
        train(Qwen2(other), rows, schedule, tmp_path, seed=0, loss=next_token_loss)


def test_distillation_loss_is_zero_for_the_teacher_itself(data: Path) -> None:
    torch.manual_seed(0)
    teacher, other = Qwen2(TINY), Qwen2(TINY)
    batch = dataset.Dataset(data).batch(0, 0, 1, {"tasks": 1.0})
    loss = distillation_loss(teacher)
    assert loss(teacher, batch).item() == pytest.approx(0.0, abs=1e-5)
    assert loss(other, batch).item() > 1e-4
