"""`LeastLoad`: rank first the replica with the smallest share of its slots taken."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.runtime.gateway.routing.ranker import Candidate, RankedReplica


class LeastLoad:
    """Order by load = (num_in_flight + num_in_flight_at_peers) / num_slots, smallest first.

    Among equal loads, the lowest breaker order comes first, then the replica listed first: when the
    fleet is idle all requests go to it, so its prefix cache holds the most. Loads count requests
    and not tokens: a replica with few long prompts looks less busy than it is.
    """

    __slots__ = ()

    def rank(self, candidates: Sequence[Candidate]) -> list[RankedReplica]:
        """See `ReplicaRanker`."""
        ordered = sorted(candidates, key=_load_and_breaker_order)
        return [RankedReplica(candidate.replica, _REASON) for candidate in ordered]


_REASON = "share of slots taken, then breaker, then position"


def _load_and_breaker_order(candidate: Candidate) -> tuple[float, int]:
    num_in_flight = candidate.num_in_flight + candidate.num_in_flight_at_peers
    return num_in_flight / candidate.num_slots, candidate.breaker_order
