"""Requests that can verify only some tokens, or none, do not keep the others drafting."""

from __future__ import annotations

import numpy as np
import pytest

from paceline.runtime.governor.drafting.drafting_round import DraftingRound
from paceline.runtime.governor.values import DraftRule

RULE = DraftRule({"sure": (0.0, 1.0)}, 0.2, (0.5, 0.5, 0.5))


def after_passes(num_passes: int, *limits: int) -> DraftingRound:
    """Requests with a chance of 0.99 for each token so far."""
    drafting = DraftingRound(RULE, ["sure"] * len(limits), np.array(limits))
    for _ in range(num_passes):
        drafting.add_pass(np.full(len(limits), 0.99))
    return drafting


@pytest.mark.parametrize(
    ("limits", "wants_more"),
    [((3,), True), ((2,), False), ((1,), False), ((0, 0, 0, 0), False), ((0, 3), True)],
)
def test_only_tokens_within_the_limits_are_worth_a_pass(
    limits: tuple[int, ...], wants_more: bool
) -> None:
    """After two passes: a third one is worth 0.7 to a request that can verify its token."""
    assert after_passes(2, *limits).wants_more() is wants_more
