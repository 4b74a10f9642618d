"""Decide whether a new draft may replace the present one: only on a proven gain."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.foundation.models.acceptance import Estimate


@dataclass(frozen=True, slots=True)
class Promotion:
    """The decision, with its reason."""

    is_promoted: bool
    reason: str


def decide_promotion(gain: Estimate | None) -> Promotion:
    """Promote if the 95 % interval of the gain in acceptance rate lies above 0.

    `gain` is candidate minus present draft, paired by held-out conversation, over all samplings;
    None without a present draft.
    """
    if gain is None:
        return Promotion(
            False, "no gain is proven: there is nothing to compare with; --present names a drafter"
        )
    interval = f"{gain.value:+.3f} ({gain.low:+.3f} to {gain.high:+.3f})"
    if gain.low > 0:
        return Promotion(True, f"the acceptance rate on held-out prompts rises by {interval}")
    if gain.high < 0:
        return Promotion(False, f"the acceptance rate on held-out prompts falls: {interval}")
    return Promotion(
        False,
        f"no gain is proven: the difference in acceptance rate on held-out prompts, {interval}, "
        "may be 0; train longer, or give more prompts",
    )
