"""`DraftRule`: when drafting ends, and which of the drafts are verified.

Fixed before a step drafts, and sent to the workers with it. So what is kept depends on nothing but
the rule and the distributions that the tokens were drawn from; see `drafting_round`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DraftRule:
    """A token is verified if its chance of being reached and accepted is worth its time."""

    maps: Mapping[str, tuple[float, float]]
    """Intercept and slope of the map from confidence to acceptance, by class of request (see
    `acceptance.confidence_map`)."""
    least_survival: float
    """The chance that a token must have to be verified: the price, in tokens, of verifying it."""
    pass_tokens: tuple[float, ...]
    """Tokens that are worth the time of the second, third, … pass of the draft model, shape
    (max_draft_length - 1,)."""

    def __post_init__(self) -> None:
        if not 0.0 <= self.least_survival < math.inf:
            raise ValueError(
                f"least_survival is {self.least_survival}; it must be finite and not negative"
            )
