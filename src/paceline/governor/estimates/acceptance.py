"""Per-position estimates of how many draft tokens are offered and accepted.

Two conditional probabilities for each position j = 1, 2, …:

    offer_j  = P(the drafter offers token j | it offered j-1, and at least j were requested)
    accept_j = P(token j is accepted        | it was offered, and j-1 was accepted)

The counts are censored: a step says nothing about positions that were not requested, and nothing
about acceptance past the first rejection. Survival, the product

    survival_j = offer_1 accept_1 … offer_j accept_j

falls monotonically by construction. A model drafter offers all that is requested (offer = 1);
n-gram and suffix drafters offer only what matches, which `offer` learns.

Verdicts are not independent draws: the tokens of one request come in runs over several steps, and
requests that began together are at similar places of similar texts. Hence the verdicts of a step
count as at most `_STEP_VERDICTS`.

Forgetting: three memories (`verdict_memory`) average over few, more and many verdicts. Each is
shrunk towards the next longer one, and the estimate is their mean, weighted by how well each
predicted recent verdicts:

    weight_m ~ exp(sum of log-likelihoods of recent verdicts under memory m)

(Bayesian mixture with forgetting: Raftery et al., Technometrics 52, 2010.) In steady traffic the
longest predicts best; after a shift the shortest does. If it does so by far, the change lies within
its span: the longer ones restart from its counts. Thus a change shortens the memory and leaves an
estimate in force that has seen the new traffic. Steps without drafts forget slowly, down to
`_FLOORS_JUDGED` verdicts, so that a probe after a long pause has weight and the estimate never
returns to the bare prior.

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
from itertools import accumulate

from paceline.governor.estimates.request_weights import RequestWeights
from paceline.governor.estimates.verdict_memory import VerdictMemory
from paceline.governor.values import StepSample

# All chosen empirically, on the simulator and on recorded verdicts of greedy code.
_MEMORIES = (12.0, 48.0, 192.0)
"""Verdicts that each memory averages over, shortest first."""
_STEP_VERDICTS = 8.0
_EVIDENCE_MEMORY = 48.0
"""Verdicts over which the memories are compared."""
_LEAST_WEIGHT = 0.01
_CHANGE_EVIDENCE = 4.0
"""Difference of log-likelihoods at which a longer memory restarts from a shorter one."""
_IDLE_MEMORY_STEPS = 256.0
_FLOORS_JUDGED = (4.0, 12.0, 12.0)

_OFFER_MEMORY = 96.0
_OFFER_MEAN, _OFFER_STRENGTH = 0.98, 2.0
"""Weak prior: a drafter that offers what is requested."""
_ERROR_STRENGTH = 2.0
"""Verdicts added to those counted where a standard error is computed."""
_LEAST_ACCEPT = 0.02

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
        self._memories = [VerdictMemory(max_draft_length, verdicts) for verdicts in _MEMORIES]
        self._evidence = [0.0] * len(_MEMORIES)
        self._shares = [1.0 / len(_MEMORIES)] * len(_MEMORIES)
        self._requested = [0.0] * max_draft_length
        self._offered = [0.0] * max_draft_length
        self._accept = [0.0] * max_draft_length
        self._judged = [0.0] * max_draft_length
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
        num_judged = len(sample.drafted)
        if num_judged > 0:
            is_uniform = not sample.requested
            weighted = self._weights.weigh(sample) if self._weights and is_uniform else None
            verdicts = weighted or _count(sample.drafted, sample.accepted)
            num_counted = round(sum(verdicts.values()))
            requested = min(sample.requested_draft_length, self._max)
            self._learn(verdicts, requested, num_counted, _complete_drafts(sample, requested))
        elif self._max:
            for memory, floor in zip(self._memories, _FLOORS_JUDGED, strict=True):
                if memory.judged[0] > floor:
                    memory.forget(math.exp(-1.0 / _IDLE_MEMORY_STEPS))

    def optimistic_survival(self, position: int) -> float:
        """Survival at `position` (from 1) if its own acceptance were one standard error higher."""
        accept = self._accept[position - 1]
        judged = self._judged[position - 1] + _ERROR_STRENGTH
        upper = min(accept + math.sqrt(accept * (1.0 - accept) / judged), 1.0)
        return self.survival[position - 1] * (upper / accept if accept > 0.0 else 1.0)

    def relative_error(self, length: int, other: int) -> float:
        """Standard error of log(tokens at `length` / tokens at `other`); both from 0.

        By the delta method, from the errors of the acceptance at each position.
        """
        ends = [0.0, *accumulate(self.survival[: max(length, other)])]
        tokens, other_tokens = 1.0 + ends[length], 1.0 + ends[other]
        variance = 0.0
        for position in range(max(length, other)):
            beyond = max(ends[length] - ends[position], 0.0) / tokens
            other_beyond = max(ends[other] - ends[position], 0.0) / other_tokens
            accept = max(self._accept[position], _LEAST_ACCEPT)
            judged = self._judged[position] + _ERROR_STRENGTH
            variance += (beyond - other_beyond) ** 2 * max(1.0 - accept, 0.0) / (accept * judged)
        return math.sqrt(variance)

    def _learn(
        self,
        verdicts: Mapping[tuple[int, int], float],
        requested: int,
        num_judged: int,
        complete: Mapping[int, int],
    ) -> None:
        """Count the verdicts of `num_judged` drafts, of which `requested` tokens were requested
        each. `complete` counts, by length, the drafts among them that are shorter because fewer
        tokens were requested."""
        counted = min(float(num_judged), _STEP_VERDICTS)
        judged, accepted = self._count_positions(
            verdicts, requested, counted, counted / num_judged, complete
        )
        evidence_kept = math.exp(-counted / _EVIDENCE_MEMORY)
        for index, memory in enumerate(self._memories):
            self._evidence[index] *= evidence_kept
            self._evidence[index] += memory.log_likelihood(judged, accepted)
            memory.learn(judged, accepted, counted)
        self._restart_where_changed()
        highest = max(self._evidence)
        weights = [math.exp(one - highest) + _LEAST_WEIGHT for one in self._evidence]
        total = sum(weights)
        self._shares = [weight / total for weight in weights]
        self._refresh()

    def _count_positions(
        self,
        verdicts: Mapping[tuple[int, int], float],
        requested: int,
        counted: float,
        scale: float,
        complete: Mapping[int, int],
    ) -> tuple[list[float], list[float]]:
        """Judged and accepted tokens by position, times `scale`; learns the offers."""
        # Drafts by the position where they ended: accepted up to it, offered up to it, rejected at
        # it, not offered at it.
        num_ends = self._max + 1
        accepted_to, offered_to = [0.0] * num_ends, [0.0] * num_ends
        rejected_at, missing_at = [0.0] * num_ends, [0.0] * num_ends
        for (drafted_here, accepted_here), num_drafts in verdicts.items():
            count = scale * num_drafts
            num_drafted = drafted_here if drafted_here < requested else requested
            num_accepted = accepted_here if accepted_here < num_drafted else num_drafted
            accepted_to[num_accepted] += count
            offered_to[num_drafted] += count
            if num_accepted < num_drafted:
                rejected_at[num_accepted] += count
            if num_drafted < requested:
                missing_at[num_drafted] += count
        for length, num_drafts_here in complete.items():
            missing_at[length] -= scale * num_drafts_here
        keep = math.exp(-counted / _OFFER_MEMORY)
        judged_at, accepted_at = [0.0] * self._max, [0.0] * self._max
        accepted = offered = 0.0
        for position in range(self._max - 1, -1, -1):
            accepted += accepted_to[position + 1]
            offered += offered_to[position + 1]
            accepted_at[position] = accepted
            judged_at[position] = accepted + rejected_at[position]
            requested_here = offered + missing_at[position]
            self._requested[position] = keep * self._requested[position] + requested_here
            self._offered[position] = keep * self._offered[position] + offered
        return judged_at, accepted_at

    def _restart_where_changed(self) -> None:
        """Restart each longer memory that predicted far worse than the next shorter one."""
        for index in range(len(_MEMORIES) - 2, -1, -1):
            if self._evidence[index] <= self._evidence[index + 1] + _CHANGE_EVIDENCE:
                continue
            self.num_changes += 1
            for longer in range(index + 1, len(_MEMORIES)):
                self._memories[longer].restart_from(self._memories[index])
                self._evidence[longer] = self._evidence[index]

    def _refresh(self) -> None:
        longer = None
        for memory in reversed(self._memories):
            memory.refresh(longer)
            longer = memory
        shares, memories = self._shares, self._memories
        survival, offered = 1.0, 1.0
        for position in range(self._max):
            accept = judged = 0.0
            for share, memory in zip(shares, memories, strict=True):
                accept += share * memory.accept[position]
                judged += share * memory.judged[position]
            offer = (_OFFER_STRENGTH * _OFFER_MEAN + self._offered[position]) / (
                _OFFER_STRENGTH + self._requested[position]
            )
            offered *= offer
            survival *= offer * accept
            self._accept[position] = accept
            self._judged[position] = judged
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
