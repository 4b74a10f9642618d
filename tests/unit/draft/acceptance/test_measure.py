"""The counts of a draft on the target's answers."""

from __future__ import annotations

import pytest
import torch

from paceline.foundation.models.acceptance import estimate_figures, measure_drafts
from paceline.foundation.models.interruption import StopRequest
from paceline.foundation.models.models import load_model
from paceline.foundation.models.progress import draft_progress
from paceline.foundation.models.values import Answer, Sampling
from unit.draft.conftest import TinyPair


def test_the_requests_of_a_conversation_are_one_unit_of_the_bootstrap(pair: TinyPair) -> None:
    """Copies of an answer under other keys add nothing to its conversation's weight in the
    interval, so each conversation once and four times have the same interval."""
    target, draft = (
        load_model(folder, torch.float32, torch.device("cpu"))
        for folder in (pair.target, pair.draft)
    )
    once, often = (
        [
            Answer(
                key=f"{number} {turn}",
                conversation=f"{number}",
                sampling=Sampling(1.0),
                prompt_ids=(4 + number,),
                token_ids=tuple(range(10 + 5 * number, 18 + 5 * number)),
                num_tokens=6,
            )
            for number in range(6)
            for turn in range(num_turns)
        ]
        for num_turns in (1, 4)
    )
    with draft_progress() as progress:
        (few,), (many,) = (
            measure_drafts(
                target, [draft], answers,
                max_draft_length=2, progress=progress, stop=StopRequest(),
            )
            for answers in (once, often)
        )  # fmt: skip
    assert (len(few), len(many)) == (6, 24)
    wanted, found = (estimate_figures(counts).token_acceptance for counts in (few, many))
    assert wanted.high > wanted.low
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high), rel=1e-4)
