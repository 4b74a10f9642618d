"""A draft is promoted only if the interval of its gain lies above 0."""

from __future__ import annotations

import re

import pytest

from paceline.foundation.models.acceptance import Estimate
from paceline.workbench.draft.training.promotion import decide_promotion


@pytest.mark.parametrize(
    ("gain", "is_promoted", "reason"),
    [
        (Estimate(0.1, 0.02, 0.18), True, r"rises by \+0.100 \(\+0.020 to \+0.180\)"),
        (Estimate(0.1, 0.0, 0.2), False, "no gain is proven"),
        (Estimate(0.1, -0.01, 0.2), False, "no gain is proven.*train longer"),
        (Estimate(-0.1, -0.2, -0.05), False, "falls"),
    ],
)
def test_only_a_proven_gain_promotes(gain: Estimate, is_promoted: bool, reason: str) -> None:
    decision = decide_promotion(gain)
    assert decision.is_promoted is is_promoted
    assert re.search(reason, decision.reason)
