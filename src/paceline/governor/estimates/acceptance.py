"""Per-position estimates of how many draft tokens are offered and accepted.

Two conditional probabilities for each position j = 1, 2, …, both as a discounted Beta count:

    offer_j  = P(the drafter offers token j | it offered j-1, and at least j were requested)
    accept_j = P(token j is accepted        | it was offered, and j-1 was accepted)

    accept_j = (strength * accept_{j-1} + accepted_j) / (strength + judged_j)

The counts are censored: a step says nothing about positions that were not requested, and nothing
about acceptance past the first rejection. The prior mean of a position is the estimate of the
position before it, so an unseen depth continues the curve smoothly at a constant hazard; survival,
the product

    survival_j = offer_1 accept_1 … offer_j accept_j

falls monotonically by construction. A model drafter offers all that is requested (offer = 1);
n-gram and suffix drafters offer only what matches, which `offer` learns.

Forgetting: counts are multiplied by `exp(-min(1/24, n/96))` per step that judged n requests, a
memory of 24 steps or 96 verdicts, whichever lasts longer (chosen empirically: the noise at one
request is then about ±0.05). Replay scores count as one step per draft. When a change is detected
(see `change_detector`), a tenth is kept, and at most 3 verdicts. Steps without drafts forget
slowly, down to `_FLOOR_JUDGED` verdicts, so that a probe after a long pause has weight and the
estimate never returns to the bare prior.

Requests may differ: where all of them draft the same length, the product of the pooled hazards is
the mean of the requests' survivals, up to the drafted depth (beyond it, only easy requests are
left, and the curve continues with theirs). `request_weights` defines how much each verdict counts
then. Assumes that the offered length does not depend on what is accepted. Reference: hazards of
censored data are Kaplan and Meier's (1958); acceptance per position for speculation: Leviathan
et al., arXiv 2211.17192.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

from paceline.governor.estimates.change_detector import ChangeDetector
from paceline.governor.estimates.request_weights import RequestWeights
from paceline.governor.values import StepSample

_MEMORY_STEPS = 24.0
_MEMORY_VERDICTS = 96.0
_IDLE_MEMORY_STEPS = 256.0
_FLOOR_JUDGED = 12.0
_KEEP_AFTER_CHANGE = 0.1
_LEFT_AFTER_CHANGE = 3.0

# Weak priors: a middling drafter that offers what is requested. Four verdicts outweigh them.
_ACCEPT_MEAN = 0.6
_OFFER_MEAN = 0.98
_STRENGTH = 2.0

_MAX_BYTE = 255


class AcceptanceModel:
    """Learns offers and acceptance for positions 1 to `max_draft_length`.

    >>> model = AcceptanceModel(2)
    >>> [round(s, 2) for s in model.survival]  # the prior: 0.6 per position, nearly all offered
    [0.59, 0.35]
    """

    def __init__(self, max_draft_length: int, *, uses_request_weights: bool = True) -> None:
        """`uses_request_weights`: where requests differ, a verdict counts by its request's weight
        (`request_weights`)."""
        self._max = max_draft_length
        self._judged = [0.0] * max_draft_length
        self._accepted = [0.0] * max_draft_length
        self._requested = [0.0] * max_draft_length
        self._offered = [0.0] * max_draft_length
        self._accept = [0.0] * max_draft_length
        self._change = ChangeDetector()
        self._weights = RequestWeights() if uses_request_weights else None
        self.num_changes = 0
        """Changes detected so far."""
        self.survival = [0.0] * max_draft_length
        """P(at least j tokens accepted) for j = 1…max, shape (max_draft_length,). Read only."""
        self.offered = [0.0] * max_draft_length
        """P(at least j tokens offered) for j = 1…max, shape (max_draft_length,). Read only."""
        self._refresh()

    def observe(self, sample: StepSample) -> None:
        """Count one step's verdicts. Cheap even for hundreds of requests."""
        report = sample.replay_scores
        if report is not None and report.drafted:
            # Each draft counts as one step.
            num_judged = len(report.drafted)
            verdicts = _count(report.drafted, report.accepted)
            self._learn(verdicts, None, num_judged / _MEMORY_VERDICTS, num_judged)
        num_judged = len(sample.drafted)
        if num_judged > 0:
            fade = min(1.0 / _MEMORY_STEPS, num_judged / _MEMORY_VERDICTS)
            is_uniform = not sample.requested
            weighted = self._weights.weigh(sample) if self._weights and is_uniform else None
            verdicts = weighted or _count(sample.drafted, sample.accepted)
            requested = min(sample.requested_draft_length, self._max)
            self._learn(verdicts, requested, fade, 1, _complete_drafts(sample, requested))
        elif sample.first_token_verdicts and self._max:
            num_judged = len(sample.first_token_verdicts)
            num_right = sum(sample.first_token_verdicts)
            verdicts = {(1, 1): num_right, (1, 0): num_judged - num_right}
            self._learn(verdicts, 1, min(1.0 / _MEMORY_STEPS, num_judged / _MEMORY_VERDICTS), 1)
        elif self._max and self._judged[0] > _FLOOR_JUDGED:
            self._forget(math.exp(-1.0 / _IDLE_MEMORY_STEPS))

    def _learn(
        self,
        verdicts: Mapping[tuple[int, int], float],
        requested: int | None,
        fade: float,
        num_steps: int,
        complete: Mapping[int, int] = MappingProxyType({}),
    ) -> None:
        """Count verdicts of `num_steps` steps that requested `requested` draft tokens of every
        request; None means that each draft has the length that was requested. `complete` counts, by
        length, the drafts among them that are shorter because fewer tokens were requested."""
        if self._change.observe(self._surprise(verdicts), num_steps):
            self.num_changes += 1
            self._forget(min(_KEEP_AFTER_CHANGE, _LEFT_AFTER_CHANGE / max(self._judged[0], 1.0)))
        keep = math.exp(-fade)
        # Drafts by the position where they ended: accepted up to it, offered up to it, rejected at
        # it, not offered at it.
        num_ends = self._max + 1
        accepted_to, offered_to = [0.0] * num_ends, [0.0] * num_ends
        rejected_at, missing_at = [0.0] * num_ends, [0.0] * num_ends
        for (drafted_here, accepted_here), count in verdicts.items():
            num_requested = min(drafted_here, self._max) if requested is None else requested
            num_drafted = drafted_here if drafted_here < num_requested else num_requested
            num_accepted = accepted_here if accepted_here < num_drafted else num_drafted
            accepted_to[num_accepted] += count
            offered_to[num_drafted] += count
            if num_accepted < num_drafted:
                rejected_at[num_accepted] += count
            if num_drafted < num_requested:
                missing_at[num_drafted] += count
        for length, count_here in complete.items():
            missing_at[length] -= count_here
        all_judged, all_accepted = self._judged, self._accepted
        all_requested, all_offered = self._requested, self._offered
        accepted = offered = 0.0
        for position in range(self._max - 1, -1, -1):
            accepted += accepted_to[position + 1]
            offered += offered_to[position + 1]
            judged = accepted + rejected_at[position]
            requested_here = offered + missing_at[position]
            all_judged[position] = keep * all_judged[position] + judged
            all_accepted[position] = keep * all_accepted[position] + accepted
            all_requested[position] = keep * all_requested[position] + requested_here
            all_offered[position] = keep * all_offered[position] + offered
        self._refresh()

    def optimistic_survival(self, position: int) -> float:
        """Survival at `position` (from 1) if its own acceptance were one standard error higher."""
        accept = self._accept[position - 1]
        judged = self._judged[position - 1] + _STRENGTH
        upper = min(accept + math.sqrt(accept * (1.0 - accept) / judged), 1.0)
        return self.survival[position - 1] * (upper / accept if accept > 0.0 else 1.0)

    def _surprise(self, verdicts: Mapping[tuple[int, int], float]) -> float:
        """Accepted tokens minus expected, in standard deviations, given the drafted lengths."""
        gap, variance = 0.0, 1e-3
        moments: dict[int, tuple[float, float]] = {}  # by length; nearly always one entry
        for (drafted, accepted), count in verdicts.items():
            if drafted not in moments:
                moments[drafted] = self._moments(drafted)
            mean, spread = moments[drafted]
            gap += count * (accepted - mean)
            variance += count * spread
        return gap / math.sqrt(variance)

    def _moments(self, drafted: int) -> tuple[float, float]:
        """Mean and variance of the tokens accepted of a draft of this length."""
        mean, square, chance, odd = 0.0, 0.0, 1.0, 1.0
        for accept in self._accept[:drafted]:
            chance *= accept
            mean += chance
            square += odd * chance  # E[a²] = Σ (2j-1) P(a >= j)
            odd += 2.0
        return mean, square - mean * mean

    def _forget(self, keep: float) -> None:
        for counts in (self._judged, self._accepted, self._requested, self._offered):
            for position in range(self._max):
                counts[position] *= keep

    def _refresh(self) -> None:
        accept, survival, offered = _ACCEPT_MEAN, 1.0, 1.0
        for position in range(self._max):
            accept = (_STRENGTH * accept + self._accepted[position]) / (
                _STRENGTH + self._judged[position]
            )
            offer = (_STRENGTH * _OFFER_MEAN + self._offered[position]) / (
                _STRENGTH + self._requested[position]
            )
            offered *= offer
            survival *= offer * accept
            self._accept[position] = accept
            self.offered[position] = offered
            self.survival[position] = survival


def _count(drafted: tuple[int, ...], accepted: tuple[int, ...]) -> Mapping[tuple[int, int], float]:
    """Counts of each (drafted, accepted). The case of equal lengths, by far the most frequent, is
    ten times faster as bytes, which matters at hundreds of requests."""
    length = drafted[0]
    if length <= _MAX_BYTE and drafted.count(length) == len(drafted):
        as_bytes = bytes(accepted)
        return {(length, a): n for a in range(length + 1) if (n := as_bytes.count(a))}
    return Counter(zip(drafted, accepted, strict=True))


def _complete_drafts(sample: StepSample, longest: int) -> Mapping[int, int]:
    """Number of drafts as long as requested where fewer than `longest` were, by length."""
    if not sample.requested:
        return {}
    pairs = Counter(zip(sample.requested, sample.drafted, strict=True))
    return {drafted: n for (asked, drafted), n in pairs.items() if asked == drafted < longest}
