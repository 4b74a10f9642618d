"""Tier 2: the candidate must be as close to the baseline as its number format allows.

The yardstick is the baseline rounded to the candidate's format. A fault of any kind (a wrong scale,
swapped rows, another RoPE base) adds to the divergence of rounding, so it is found when it costs
about as much as rounding itself. Divergences of a number format alone cannot say whether it is good
enough for a task (arXiv 2606.19558), so this tier rejects, or says what an approval still lacks.

Everything is summed up per conversation: tokens of one conversation depend on each other. So the
loss of perplexity is the mean over conversations of the loss per token, with equal weights.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from paceline.foundation.answer_quality.decisions.limits import APPROVE_ERROR, REJECT_ERROR, Limits
from paceline.foundation.answer_quality.divergence import Divergence
from paceline.foundation.answer_quality.statistics.bounded_mean import bounded_mean
from paceline.foundation.answer_quality.statistics.extreme import exceeds_in_extremes, num_extremes
from paceline.foundation.answer_quality.statistics.typical import typical_difference, typical_ratio
from paceline.foundation.answer_quality.values import Floats, Interval, Text, TextKind

FLOOR_NATS = 1e-7
"""Divergences per token below this are rounding noise of float32."""
MAX_LOSS_NATS = 1.0
"""Per token, in the mean of a conversation: larger losses and gains count as this much in the
perplexity, because a mean can be bounded only for bounded values (`bounded_mean`: from -1 to 1).
Texts whose tokens are e times less probable are useless already."""


@dataclass(frozen=True, slots=True)
class Fidelity:
    """The figures of tier 2 and what they say."""

    num_conversations: int
    num_tokens: int
    mean_kl_nats: float
    p99_kl_nats: float
    """Over tokens."""
    agreement: float
    """Fraction of tokens with the same most probable token."""
    ratio: Interval | None
    """Divergence relative to the yardstick's, at APPROVE_ERROR; None without a yardstick."""
    yardstick_kl_nats: float | None
    """Mean divergence of the baseline rounded to the candidate's format."""
    perplexity_increase: Interval
    """Relative, in the mean over conversations, at APPROVE_ERROR. A conversation counts for at most
    MAX_LOSS_NATS."""
    perplexity_on: TextKind
    """The texts of the perplexity."""
    faults: tuple[str, ...]
    """Why the candidate is rejected; empty if it is not."""
    lacking: tuple[str, ...]
    """What an approval still needs."""


def judge_fidelity(
    texts: Sequence[Text],
    candidate: Mapping[str, Divergence],
    yardstick: Mapping[str, Divergence] | None,
    limits: Limits,
) -> Fidelity:
    """Judge the divergences, by the key of their text. `texts` is not empty."""
    kl = np.concatenate([candidate[text.key].kl_nats for text in texts])
    agrees = np.concatenate([candidate[text.key].agrees for text in texts])
    groups = _by_conversation(texts)
    faults: list[str] = []
    lacking: list[str] = []
    ratio = None
    if yardstick is not None:
        ratio = _judge_ratio(groups, candidate, yardstick, limits, faults, lacking)
        if _is_extreme(groups, candidate, yardstick, limits):
            faults.append(
                f"in the {num_extremes(REJECT_ERROR)} conversations with the largest divergence of "
                f"a token, the candidate's is always more than {limits.divergence_ratio:g} times "
                "that of plain rounding"
            )
    else:
        lacking.append("its number format has no yardstick, so faults and rounding look alike")
    kind, increase = _judge_perplexity(texts, candidate, limits, faults, lacking)
    return Fidelity(
        num_conversations=len(groups),
        num_tokens=len(kl),
        mean_kl_nats=float(kl.mean()),
        p99_kl_nats=float(np.quantile(kl, 0.99)),
        agreement=float(agrees.mean()),
        ratio=ratio,
        yardstick_kl_nats=None if yardstick is None else _mean(texts, yardstick),
        perplexity_increase=increase,
        perplexity_on=kind,
        faults=tuple(faults),
        lacking=tuple(lacking),
    )


def _judge_ratio(
    groups: Mapping[str, list[Text]],
    candidate: Mapping[str, Divergence],
    yardstick: Mapping[str, Divergence],
    limits: Limits,
    faults: list[str],
    lacking: list[str],
) -> Interval:
    means = [
        np.array([_mean(texts, found) for texts in groups.values()])
        for found in (candidate, yardstick)
    ]
    sure = typical_ratio(means[0], means[1], REJECT_ERROR, FLOOR_NATS)
    shown = typical_ratio(means[0], means[1], APPROVE_ERROR, FLOOR_NATS)
    text = (
        f"its divergence is {shown.value:.3g} times that of plain rounding to its format "
        f"(limit {limits.divergence_ratio:g})"
    )
    if sure.low is not None and sure.low > limits.divergence_ratio:
        faults.append(text)
    elif not (shown.high is not None and shown.high <= limits.divergence_ratio):
        lacking.append(
            f"{text}, and {len(groups)} conversations do not prove it to be below; give more "
            "prompts"
        )
    return shown


def _is_extreme(
    groups: Mapping[str, list[Text]],
    candidate: Mapping[str, Divergence],
    yardstick: Mapping[str, Divergence],
    limits: Limits,
) -> bool:
    largest = [
        np.array(
            [max(found[text.key].kl_nats.max() for text in texts) for texts in groups.values()]
        )
        for found in (candidate, yardstick)
    ]
    return exceeds_in_extremes(
        largest[0] + FLOOR_NATS, limits.divergence_ratio * (largest[1] + FLOOR_NATS), REJECT_ERROR
    )


def _judge_perplexity(
    texts: Sequence[Text],
    candidate: Mapping[str, Divergence],
    limits: Limits,
    faults: list[str],
    lacking: list[str],
) -> tuple[TextKind, Interval]:
    """On reference answers where there are any, else on the baseline's own, sampled if possible."""
    kinds = {text.kind for text in texts}
    kind = next(one for one in reversed(TextKind) if one in kinds)
    groups = _by_conversation([text for text in texts if text.kind is kind])
    losses: Floats = np.array(
        [
            np.concatenate([candidate[text.key].loss_nats for text in some]).mean()
            for some in groups.values()
        ]
    )
    counted: Floats = np.clip(losses, -MAX_LOSS_NATS, MAX_LOSS_NATS)
    shown, sure, typical = (
        _exponential(found)
        for found in (
            bounded_mean(counted, APPROVE_ERROR),
            bounded_mean(counted, REJECT_ERROR),
            typical_difference(losses.tolist(), REJECT_ERROR),
        )
    )
    assert shown.high is not None  # a bounded mean always has bounds
    limit = limits.perplexity_increase
    if sure.low is not None and sure.low > limit:
        faults.append(f"its perplexity is {shown.value:.1%} higher (limit {limit:.1%})")
    elif typical.low is not None and typical.low > limit:
        faults.append(
            f"in the typical conversation its perplexity is {typical.value:.1%} higher "
            f"(limit {limit:.1%})"
        )
    elif not shown.high <= limit:
        lacking.append(
            f"its perplexity changes by {shown.value:+.1%} on {len(losses)} conversations, and may "
            f"be up to {shown.high:.1%} higher (limit {limit:.1%}); give more prompts"
        )
    return kind, shown


def _exponential(nats: Interval) -> Interval:
    low, high = (None if one is None else math.expm1(one) for one in (nats.low, nats.high))
    return Interval(math.expm1(nats.value), low, high)


def _by_conversation(texts: Sequence[Text]) -> dict[str, list[Text]]:
    groups: dict[str, list[Text]] = {}
    for text in texts:
        groups.setdefault(text.conversation, []).append(text)
    return groups


def _mean(texts: Sequence[Text], found: Mapping[str, Divergence]) -> float:
    """Mean divergence of all tokens of the texts."""
    values: Floats = np.concatenate([found[text.key].kl_nats for text in texts])
    return float(values.mean())
