"""How often draft tokens are offered and accepted, by position, for one class of requests.

Two conditional probabilities for each position j = 1, 2, …:

    offer_j  = P(the drafter offers token j | it offered j-1, and at least j were requested)
    accept_j = P(token j is accepted        | it was offered, and j-1 was accepted)

The counts are censored: a step says nothing about positions that were not requested, and nothing
about acceptance past the first rejection. Survival, the product

    survival_j = offer_1 accept_1 … offer_j accept_j

falls monotonically by construction. A model drafter offers all that is requested (offer = 1);
n-gram and suffix drafters offer only what matches, which `offer` learns.

One memory, which averages over about `_MEMORY` verdicts: text changes within tens of steps, and on
recorded drafts a longer memory, three of them, or a memory per request shrunk to that of its class
gained nothing (docs/experiments/governor.md). Each acceptance is shrunk towards that of the
position before, the first one towards 0.6. The verdicts of one step count as at most
`_STEP_VERDICTS`, as requests that began together are at similar places of similar texts.

Reference: hazards of censored data are Kaplan and Meier's (1958); acceptance per position for
speculation: Leviathan et al., arXiv 2211.17192.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

# All chosen empirically on recorded drafts of seven kinds of text.
_MEMORY = 24.0
_STEP_VERDICTS = 8.0
_FIRST_ACCEPT, _STRENGTH = 0.6, 4.0
_OFFER_MEMORY = 96.0
_OFFER_MEAN, _OFFER_STRENGTH = 0.98, 2.0
"""Weak prior: a drafter that offers what is requested."""

Verdicts = Mapping[tuple[int, int, int], float]
"""(tokens requested, offered, accepted) → number of drafts."""


class Hazards:
    """Learns offers and acceptance for positions 1 to `max_draft_length`.

    >>> hazards = Hazards(2)
    >>> [round(s, 2) for s in hazards.survival]  # the prior: 0.6 per position, nearly all offered
    [0.59, 0.35]
    """

    def __init__(self, max_draft_length: int) -> None:
        self._judged = [0.0] * max_draft_length
        self._accepted = [0.0] * max_draft_length
        self._requested = [0.0] * max_draft_length
        self._offered = [0.0] * max_draft_length
        self.offered = [0.0] * max_draft_length
        """P(at least j tokens offered) for j = 1…max, shape (max_draft_length,). Read only."""
        self.survival = [0.0] * max_draft_length
        """P(at least j tokens accepted) for j = 1…max, shape (max_draft_length,). Read only."""
        self._refresh()

    def learn(self, verdicts: Verdicts) -> None:
        """Count one step's verdicts; some drafts, none of them longer than requested."""
        length = len(self.survival)
        num_drafts = sum(verdicts.values())
        scale = min(1.0, _STEP_VERDICTS / num_drafts)
        # Weights by the last position that a draft counts at; position j has those from j on.
        judged, accepted = [0.0] * (length + 1), [0.0] * (length + 1)
        requested, offered = [0.0] * (length + 1), [0.0] * (length + 1)
        for (num_requested, num_offered, num_accepted), count in verdicts.items():
            weight = scale * count
            # Where the drafter offered less, only the first missing token says something.
            num_wanted = max(num_offered, min(num_offered + 1, num_requested))
            requested[min(num_wanted, length)] += weight
            offered[min(num_offered, length)] += weight
            judged[min(num_accepted + 1, num_offered, length)] += weight
            accepted[min(num_accepted, length)] += weight
        keep = math.exp(-scale * num_drafts / _MEMORY)
        keep_offers = math.exp(-scale * num_drafts / _OFFER_MEMORY)
        for sums, weights, kept in (
            (self._judged, judged, keep),
            (self._accepted, accepted, keep),
            (self._requested, requested, keep_offers),
            (self._offered, offered, keep_offers),
        ):
            total = 0.0
            for position in range(length - 1, -1, -1):
                total += weights[position + 1]
                sums[position] = kept * sums[position] + total
        self._refresh()

    def learn_dropped(
        self,
        reached: Sequence[float],
        accepted: Sequence[float],
        *,
        num_drafts: int,
        num_empty: int,
    ) -> None:
        """Count the drafts of one step that were not verified, by their chances.

        `reached` has the expected number of them by position whose tokens before are accepted, and
        `accepted` of those that would be accepted too, of one shape, (num_passes,). The step had
        `num_drafts`, and of `num_empty` nothing was verified.
        """
        scale = min(1.0, _STEP_VERDICTS / num_drafts)
        keep = math.exp(-scale * num_empty / _MEMORY)
        for sums, weights in ((self._judged, reached), (self._accepted, accepted)):
            for position, weight in enumerate(weights):
                sums[position] = keep * sums[position] + scale * weight
        self._refresh()

    def _refresh(self) -> None:
        accept, survival, offered = _FIRST_ACCEPT, 1.0, 1.0
        for position, judged in enumerate(self._judged):
            accept = (_STRENGTH * accept + self._accepted[position]) / (_STRENGTH + judged)
            offer = (_OFFER_STRENGTH * _OFFER_MEAN + self._offered[position]) / (
                _OFFER_STRENGTH + self._requested[position]
            )
            offered *= offer
            survival *= offer * accept
            self.offered[position] = offered
            self.survival[position] = survival
