"""Rows of tokens: their weights, and batches that depend on seed and step alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from demo_recipe import dataset


def test_weights_are_1_for_answers_and_0_for_padding(data: Path) -> None:
    tokens, weights = np.load(data / "tasks.npy"), np.load(data / "tasks_weights.npy")
    tokenizer = dataset.load_tokenizer(data)
    answers = [int(t) for t, w in zip(tokens[0], weights[0], strict=True) if w == 1.0]
    assert tokenizer.decode(answers[:2], skip_special_tokens=False) == "0<|im_end|>"
    assert weights[-1][-1] == 0


def test_a_batch_depends_on_seed_and_step_alone(data: Path) -> None:
    rows = dataset.Dataset(data)
    shares = {"tasks": 0.5}
    first, again = rows.batch(1, 7, 6, shares), rows.batch(1, 7, 6, shares)
    assert (first.tokens == again.tokens).all()
    assert (first.tokens != rows.batch(1, 8, 6, shares).tokens).any()
