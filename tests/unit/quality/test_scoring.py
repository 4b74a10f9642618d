"""Scores of a model, and their way over the disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from paceline.foundation.answer_quality.divergence import NUM_NAMED
from paceline.foundation.answer_quality.values import Text, TextKind
from paceline.foundation.models.interruption import StopRequest
from paceline.foundation.models.models import load_model
from paceline.foundation.models.progress import draft_progress
from paceline.workbench.quality.scoring import score_texts
from paceline.workbench.quality.stored_scores import WorkFolder

TEXTS = [
    Text("a", "a", TextKind.SAMPLED, (5, 6, 7), (8, 9)),
    Text("b", "b", TextKind.SAMPLED, (5,), (300, 301, 302, 303)),
]


def test_scores_are_the_logprobs_before_each_token(tiny: Path) -> None:
    model = load_model(tiny, torch.float32, torch.device("cpu"))
    with draft_progress() as progress:
        found = score_texts(model, TEXTS, None, what="t", progress=progress, stop=StopRequest())
        again = score_texts(model, TEXTS, found, what="t", progress=progress, stop=StopRequest())
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([[5, 6, 7, 8, 9]])).logits[0].double()
    expected = logits.log_softmax(-1)[[2, 3], [8, 9]].numpy()
    assert found["a"].token_logprobs == pytest.approx(expected, abs=1e-5)
    assert found["b"].logprobs.shape == (4, NUM_NAMED)
    assert found["b"].best.tolist() == found["b"].ids[:, 0].tolist()
    for key in ("a", "b"):
        np.testing.assert_array_equal(again[key].logprobs, found[key].logprobs)


def test_stored_scores_are_read_again_and_belong_to_their_model(tiny: Path, tmp_path: Path) -> None:
    model = load_model(tiny, torch.float32, torch.device("cpu"))
    with draft_progress() as progress:
        made = score_texts(model, TEXTS, None, what="t", progress=progress, stop=StopRequest())
    work = WorkFolder(tmp_path / "work")
    work.scores(TEXTS, ["one"], lambda: made)
    found = work.scores(TEXTS, ["one"], lambda: pytest.fail("they are on disk"))
    for text in TEXTS:
        np.testing.assert_array_equal(found[text.key].ids, made[text.key].ids)
        np.testing.assert_array_equal(found[text.key].logprobs, made[text.key].logprobs)
    calls: list[str] = []
    work.scores(TEXTS, ["another"], lambda: calls.append("made") or made)  # type: ignore[func-returns-value]
    work.scores(TEXTS[:1], ["one"], lambda: calls.append("made") or made)  # type: ignore[func-returns-value]
    assert calls == ["made", "made"]
