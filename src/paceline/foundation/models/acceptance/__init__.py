"""Acceptance of a draft on the target's own answers, by the definitions of vLLM's counters.

`positions` has the acceptance of each token from one pass of both models, `blocks` what vLLM counts
on such a text, `figures` the ratios with their intervals.

For other rooms: `measure_drafts`, `counts_under` and the figures.
"""

from paceline.foundation.models.acceptance.blocks import DraftCounts
from paceline.foundation.models.acceptance.figures import (
    AcceptanceFigures,
    Estimate,
    counts_under,
    estimate_difference,
    estimate_figures,
)
from paceline.foundation.models.acceptance.measure import PromptCounts, measure_drafts

__all__ = [
    "AcceptanceFigures",
    "DraftCounts",
    "Estimate",
    "PromptCounts",
    "counts_under",
    "estimate_difference",
    "estimate_figures",
    "measure_drafts",
]
