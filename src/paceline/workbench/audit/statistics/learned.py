"""Bets that learn, prefix by prefix, which tokens come too often.

A biased endpoint prefers what its drafter prefers, which no fixed alternative knows. After a prefix
that many answers share, each token x gets the weight

    (observed[x] + strength) / (expected[x] + strength)

from the answers before; the alternative is the claim times these weights, normalised. It depends on
the past only, so the bet has expectation 1 under the claim. All sampling cases share the counts.
The same is done over all prefixes together, because drafters prefer some tokens everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from paceline.workbench.audit.statistics.claims import REST
from paceline.workbench.audit.values import Token

STRENGTHS = (3.0, 12.0, 50.0)
"""Expected tokens after which the counts have half of the weight; one alternative each. Chosen
empirically: small ones find large biases sooner."""
LEARNED_NAMES = tuple(f"tokens preferred before, strength {one:g}" for one in STRENGTHS)
_SMALLEST = 1e-5


@dataclass(slots=True)
class _Counts:
    observed: dict[Token, int] = field(default_factory=dict)
    expected: dict[Token, float] = field(default_factory=dict)


class LearnedBets:
    """The counts after each prefix."""

    def __init__(self) -> None:
        self._counts: dict[Hashable, _Counts] = {}

    def bet(self, prefix: Hashable, claim: Mapping[Token, float], token: Token) -> list[float]:
        """ln of the bet of every alternative on this token; then learn from it."""
        counts = self._counts.setdefault(prefix, _Counts())
        drawn = token if token in claim else REST
        bets = []
        for strength in STRENGTHS:
            total = drawn_weight = 0.0
            for other, prob in claim.items():
                weight = 1.0
                if other != REST:
                    seen = counts.observed.get(other, 0) + strength
                    weight = seen / (counts.expected.get(other, 0.0) + strength)
                total += max(prob, _SMALLEST) * weight
                if other == drawn:
                    drawn_weight = weight
            # The claim's own total exceeds 1 by what `_SMALLEST` adds.
            claimed_total = sum(max(prob, _SMALLEST) for prob in claim.values())
            bets.append(math.log(drawn_weight * claimed_total / total))
        counts.observed[drawn] = counts.observed.get(drawn, 0) + 1
        for other, prob in claim.items():
            counts.expected[other] = counts.expected.get(other, 0.0) + prob
        return bets
