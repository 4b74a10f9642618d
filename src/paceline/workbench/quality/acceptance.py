"""The draft's acceptance with the candidate as target, beside that with the baseline.

Each target answers the prompts itself, as when it serves, so the two are measured on different
texts; they are paired by conversation. Another acceptance changes the speed, not the answers, so it
is reported and is no part of the verdict.
"""

from __future__ import annotations

from collections.abc import Sequence

from paceline.foundation.answer_quality.values import AcceptanceChange
from paceline.foundation.models.acceptance import (
    PromptCounts,
    counts_under,
    estimate_difference,
    estimate_figures,
)
from paceline.foundation.models.values import Sampling


def compare_acceptance(
    baseline: Sequence[PromptCounts],
    candidate: Sequence[PromptCounts],
    samplings: Sequence[Sampling],
) -> list[AcceptanceChange]:
    """The change under each sampling. DraftError if too few conversations were drafted for."""
    found = []
    for sampling in samplings:
        before, after = _paired(counts_under(baseline, sampling), counts_under(candidate, sampling))
        change = estimate_difference(after, before).acceptance_rate
        found.append(
            AcceptanceChange(
                sampling=sampling.label,
                baseline=estimate_figures(before).acceptance_rate.value,
                candidate=estimate_figures(after).acceptance_rate.value,
                low=change.low,
                high=change.high,
            )
        )
    return found


def _paired(
    baseline: Sequence[PromptCounts], candidate: Sequence[PromptCounts]
) -> tuple[list[PromptCounts], list[PromptCounts]]:
    """The counts of conversations that both drafted for, in one order."""
    common = {one.conversation for one in baseline} & {one.conversation for one in candidate}
    before, after = (
        sorted((one for one in some if one.conversation in common), key=lambda c: c.conversation)
        for some in (baseline, candidate)
    )
    return before, after
