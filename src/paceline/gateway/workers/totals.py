"""What do the workers do, taken together?

State on values, in the head: fed with the reports and the counts of each worker, asked by whoever
shows them or waits for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paceline.gateway.metrics.samples import FamilyOfSamples, add_samples, only_counted
from paceline.gateway.routing.breaker import BreakerState
from paceline.gateway.workers.messages import Counts, Report

_WORST_FIRST = (BreakerState.OPEN, BreakerState.HALF_OPEN, BreakerState.CLOSED)


class Totals:
    """Of the workers at places 0 to N - 1. A worker that has not told anything holds nothing."""

    def __init__(self, num_workers: int) -> None:
        self.reports = [Report() for _ in range(num_workers)]
        self._counts = [Counts() for _ in range(num_workers)]
        self._of_the_dead: Sequence[FamilyOfSamples] = ()

    def reported(self, place: int, report: Report) -> None:
        self.reports[place] = report

    def counted(self, place: int, counts: Counts) -> None:
        self._counts[place] = counts

    def ended(self, place: int) -> int:
        """The worker is gone. What it counted stays, as far as it has told; what it held does not.

        Returns how many requests it had in flight.
        """
        lost = self.reports[place]
        self._of_the_dead = add_samples(
            [self._of_the_dead, only_counted(self._counts[place].families)]
        )
        self.reports[place], self._counts[place] = Report(), Counts()
        return sum(lost.in_flight.values())

    def num_in_flight(self, replica_name: str) -> int:
        return sum(report.in_flight.get(replica_name, 0) for report in self.reports)

    def breaker_states(self) -> Mapping[str, BreakerState]:
        """Of each replica the worst that any worker sees."""
        worst: dict[str, BreakerState] = {}
        for report in self.reports:
            for name, state in report.breakers.items():
                worst[name] = min(state, worst.get(name, state), key=_WORST_FIRST.index)
        return worst

    def samples(self) -> Sequence[FamilyOfSamples]:
        """What all workers have counted, those that are gone included."""
        return add_samples([self._of_the_dead, *(counts.families for counts in self._counts)])

    def all_heard(self, number: int) -> bool:
        """Whether all that serve go by the list of replicas of this number, or a later one."""
        return all(one.replicas_heard >= number for one in self.reports if one.replicas_heard)

    def in_flight_elsewhere(self, place: int) -> dict[str, int]:
        """By replica, over all workers but the one at this place."""
        in_flight: dict[str, int] = {}
        for at, report in enumerate(self.reports):
            for name, count in report.in_flight.items() if at != place else ():
                in_flight[name] = in_flight.get(name, 0) + count
        return in_flight
