"""The verdict on one candidate.

`rejected`: a tier found a fault. `approved`: no tier did, tier 2 proved the divergence of the
typical conversation and the mean perplexity, and tier 3 the mean task score. Otherwise `undecided`,
with what is lacking.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from paceline.foundation.answer_quality.decisions.fidelity import Fidelity
from paceline.foundation.answer_quality.decisions.limits import APPROVE_ERROR, FALSE_REJECTION
from paceline.foundation.answer_quality.decisions.outcomes import OutcomeFigures


class Verdict(StrEnum):
    APPROVED = "approved"
    REJECTED = "rejected"
    UNDECIDED = "undecided"


EXIT_CODES = {Verdict.APPROVED: 0, Verdict.REJECTED: 1, Verdict.UNDECIDED: 3}
ERRORS = (
    f"a sound candidate is rejected with a probability of at most {FALSE_REJECTION:g}, and one "
    f"whose mean perplexity or task score is beyond its limit is approved with at most "
    f"{APPROVE_ERROR:g}; both assume that the prompts are an independent sample of your traffic"
)
_NO_SCORES = (
    "no prompt has a reference answer, or none was answered greedily, and only task scores can "
    "approve; add `reference` to the prompts, or give --checker"
)


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict and why; `tier` is the first that rejects, None otherwise."""

    verdict: Verdict
    reasons: tuple[str, ...]
    tier: int | None = None


def decide(
    integrity_faults: tuple[str, ...],
    fidelity: Fidelity | None,
    outcomes: OutcomeFigures | None,
    not_computed: str = "",
) -> Decision:
    """The verdict. Tiers that were not run are None; `not_computed` says why tier 2 was not."""
    faults = (
        integrity_faults,
        () if fidelity is None else fidelity.faults,
        () if outcomes is None else outcomes.faults,
    )
    for tier, found in enumerate(faults, start=1):
        if found:
            return Decision(Verdict.REJECTED, found, tier)
    if fidelity is None:
        return Decision(Verdict.UNDECIDED, (not_computed,))
    if outcomes is None:
        return Decision(Verdict.UNDECIDED, (*fidelity.lacking, _NO_SCORES))
    if fidelity.lacking or outcomes.lacking:
        return Decision(Verdict.UNDECIDED, (*fidelity.lacking, *outcomes.lacking))
    assert outcomes.loss.high is not None
    return Decision(
        Verdict.APPROVED,
        (
            f"on {outcomes.num_prompts} prompts the task score falls by at most "
            f"{max(0.0, outcomes.loss.high):.3f}, the perplexity rises by at most "
            f"{max(0.0, fidelity.perplexity_increase.high or 0.0):.1%}, and the divergence of the "
            "typical conversation is that of the format",
        ),
    )
