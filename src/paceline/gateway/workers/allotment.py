"""How are the places of the replicas dealt out to the workers?

A decision on numbers, in the head. Each worker lets in as many requests as it was told it may, so
a place is taken from one before it is given to another, and there is no moment at which the
workers together may hold more than there are. What a worker does with its limit is in `admission`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from paceline.gateway.admission.slot_quota import Demand
from paceline.gateway.workers.messages import Part, Report

_NOTHING = Demand()


class Allotment:
    """The limits of N workers, by model.

    Of P places a worker is to have its fair share (`divide`) of what all of them want, that is hold
    or wait for, and an N-th of what nobody wants, so that a request that comes is let in at once.
    A limit falls as soon as it is told; others may rise by what has become free: P less, for each
    worker, the larger one of what it holds and of the limits that it may be going by.

    So the workers together hold no more than P. Beyond that they go when P falls, by what they hold
    then, and by at most one request each while breakers are open (`PeerWorkerView`). An idle
    gateway has P / N places for a worker at once and the others after a few messages, about 0.1 s;
    until then its requests wait, also those that could not wait for a place that is taken
    (`Admission`): what is wanted nowhere else comes to whoever waits.

    Where it fails: with fewer places than workers the last of them get none as long as the first
    ones want some all the time. What a worker that hangs holds is nobody's until it has been
    killed.
    """

    def __init__(self, num_workers: int) -> None:
        self._told: list[deque[tuple[int, Mapping[str, int]]]] = [
            deque([(0, {})]) for _ in range(num_workers)
        ]
        """By worker, with their numbers: the limits that it has confirmed, and all told since."""

    def told(self, place: int, number: int, parts: Mapping[str, Part]) -> None:
        """The worker is told these limits, under a number higher than those before."""
        self._told[place].append((number, {model: part.limit for model, part in parts.items()}))

    def ended(self, place: int) -> None:
        """The worker is gone."""
        self._told[place] = deque([(0, {})])

    def deal(self, slots: Mapping[str, int], reports: Sequence[Report]) -> list[dict[str, Part]]:
        """What each worker is to be told, where there are so many slots of each model."""
        for told, report in zip(self._told, reports, strict=True):
            while len(told) > 1 and told[0][0] < report.places_heard:
                told.popleft()
        parts: list[dict[str, Part]] = [{} for _ in reports]
        for model, num_slots in slots.items():
            demands = [report.demands.get(model, _NOTHING) for report in reports]
            limits = self._limits(model, num_slots, demands)
            wanted = [one.num_held + one.num_waiting for one in demands]
            num_waiting = sum(one.num_waiting for one in demands)
            num_held = sum(one.num_held for one in demands)
            for place, limit in enumerate(limits):
                if_greedy = [*wanted[:place], num_slots, *wanted[place + 1 :]]
                parts[place][model] = Part(
                    of=num_slots,
                    limit=limit,
                    share=divide(if_greedy, num_slots)[place],
                    num_waiting_elsewhere=num_waiting - demands[place].num_waiting,
                    num_held_elsewhere=num_held - demands[place].num_held,
                )
        return parts

    def _limits(self, model: str, num_slots: int, demands: Sequence[Demand]) -> list[int]:
        taken = [
            max(one.num_held, *(limits.get(model, 0) for _, limits in told))
            for one, told in zip(demands, self._told, strict=True)
        ]
        num_free = max(0, num_slots - sum(taken))
        limits = []
        for target, num_taken in zip(_targets(demands, num_slots), taken, strict=True):
            risen = min(max(0, target - num_taken), num_free)
            num_free -= risen
            limits.append(min(target, num_taken) + risen)
        return limits


def _targets(demands: Sequence[Demand], num_slots: int) -> list[int]:
    shares = divide([one.num_held + one.num_waiting for one in demands], num_slots)
    spare = divide([num_slots] * len(demands), num_slots - sum(shares))
    return [share + more for share, more in zip(shares, spare, strict=True)]


def divide(demands: Sequence[int], num_slots: int) -> list[int]:
    """Slots to each, by max-min fairness: nobody gets more than it asks for, and what one does not
    want is divided among the others. What cannot be divided goes to the first.

    >>> divide([10, 1, 10], 8)
    [4, 1, 3]
    """
    shares = [0] * len(demands)
    num_left = min(num_slots, sum(demands))
    while num_left:
        hungry = [place for place, wanted in enumerate(demands) if wanted > shares[place]]
        each = max(1, num_left // len(hungry))
        for place in hungry:
            given = min(each, demands[place] - shares[place], num_left)
            shares[place] += given
            num_left -= given
    return shares
