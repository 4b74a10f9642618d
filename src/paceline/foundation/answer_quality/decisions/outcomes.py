"""Tier 3: the candidate's answers must be as good as the baseline's, by the user's checker.

Both models answer the same prompts greedily, and each pair of scores gives one loss. The mean loss
over conversations is bounded by betting (`statistics.bounded_mean`), which is exact for outcomes
that rarely differ. No candidate is approved without this tier: it measures what the user needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from paceline.foundation.answer_quality.decisions.limits import APPROVE_ERROR, REJECT_ERROR, Limits
from paceline.foundation.answer_quality.statistics.bounded_mean import bounded_mean
from paceline.foundation.answer_quality.values import Floats, Interval, Outcome

MIN_BASELINE_SCORE = 0.2
"""Chosen: prompts that the baseline fails cannot show a loss. Below this, most do not."""


@dataclass(frozen=True, slots=True)
class OutcomeFigures:
    """The figures of tier 3 and what they say."""

    num_prompts: int
    num_conversations: int
    baseline_score: float
    candidate_score: float
    num_worse: int
    """Prompts that the candidate answers worse."""
    num_better: int
    loss: Interval
    """Baseline minus candidate, mean over conversations, at APPROVE_ERROR."""
    faults: tuple[str, ...]
    lacking: tuple[str, ...]


def pair_outcomes(
    baseline: Mapping[str, tuple[str, float | None]], candidate: Mapping[str, float | None]
) -> list[Outcome]:
    """The scores of both models, by the key of the prompt; `baseline` has its conversation, too.

    A prompt counts if the baseline's answer has a score. A candidate's answer without one then has
    the score 0: a checker may return None for an answer that it cannot read.

    >>> pair_outcomes({"a": ("one", 1.0), "b": ("two", None)}, {"a": None, "b": 1.0})
    [Outcome(conversation='one', baseline=1.0, candidate=0.0)]
    """
    return [
        Outcome(conversation, before, candidate.get(key) or 0.0)
        for key, (conversation, before) in baseline.items()
        if before is not None
    ]


def judge_outcomes(outcomes: Sequence[Outcome], limits: Limits) -> OutcomeFigures:
    """Judge the scores. `outcomes` is not empty."""
    losses: dict[str, list[float]] = {}
    for one in outcomes:
        losses.setdefault(one.conversation, []).append(one.baseline - one.candidate)
    means: Floats = np.array([np.mean(some) for some in losses.values()])
    shown, sure = bounded_mean(means, APPROVE_ERROR), bounded_mean(means, REJECT_ERROR)
    assert shown.high is not None
    assert sure.low is not None
    baseline = float(np.mean([one.baseline for one in outcomes]))
    faults, lacking = [], []
    if sure.low > limits.score_loss:
        faults.append(f"its task score is {shown.value:.3f} lower (limit {limits.score_loss:g})")
    elif baseline < MIN_BASELINE_SCORE:
        lacking.append(
            f"the baseline scores {baseline:.2f}; prompts that it fails show no loss. Give prompts "
            f"with a score of at least {MIN_BASELINE_SCORE:g}, or another --checker"
        )
    elif shown.high > limits.score_loss:
        lacking.append(
            f"the loss of task score, {shown.value:+.3f}, may be up to {shown.high:.3f} (limit "
            f"{limits.score_loss:g}); give more prompts with reference answers"
        )
    return OutcomeFigures(
        num_prompts=len(outcomes),
        num_conversations=len(losses),
        baseline_score=baseline,
        candidate_score=float(np.mean([one.candidate for one in outcomes])),
        num_worse=sum(one.candidate < one.baseline for one in outcomes),
        num_better=sum(one.candidate > one.baseline for one in outcomes),
        loss=shown,
        faults=tuple(faults),
        lacking=tuple(lacking),
    )
