"""Distribute the slots of each replica among the workers.

A decision on numbers, made in the parent process. A worker admits sequences up to its last limit,
so a slot is taken from one worker before another gets it: at no moment may the workers together
admit more sequences than there are slots. How a worker uses its limit is up to `admission`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from paceline.runtime.gateway.peers import SlotDemand
from paceline.runtime.gateway.workers.messages import SlotAllocation, WorkerReport

_NO_DEMAND = SlotDemand()


class SlotAllocator:
    """The limits of N workers, by replica. Slots are counted in sequences.

    A worker's target is its fair share (`divide_fairly`) of the P slots that the workers together
    want, that is hold or wait for, plus an N-th of the slots that no worker wants, so that it can
    admit a new request at once. A limit falls as soon as it is sent. Limits rise only by free
    slots: P minus, for each worker, the larger of what it holds and of the limits it may be using.

    So the workers together admit at most P sequences to a replica. In an idle gateway a worker has
    P / N slots at once and the others after a few messages, about 0.1 s later. Until then its
    requests wait, even where waiting is not allowed (`AdmissionQueue`), because idle slots will be
    assigned to it.

    Where it fails: with fewer slots than workers, the last workers get none while the first ones
    have demand. A request with more sequences than its worker's fair share gets no slots while the
    other workers use theirs. A waiting request counts for each replica that could serve it. Slots
    held by a hung worker stay unused until it has been killed.
    """

    def __init__(self, num_workers: int) -> None:
        self._limits_in_use: list[deque[tuple[int, Mapping[str, int]]]] = [
            deque([(0, {})]) for _ in range(num_workers)
        ]
        """By worker: (version, limits) that the worker has confirmed, and all sent since then."""

    def sent(self, worker_index: int, version: int, slots: Mapping[str, SlotAllocation]) -> None:
        """Note that these limits were sent. Versions of one worker must rise."""
        limits = {name: allocation.limit for name, allocation in slots.items()}
        self._limits_in_use[worker_index].append((version, limits))

    def worker_ended(self, worker_index: int) -> None:
        """Free the slots of a worker that has ended."""
        self._limits_in_use[worker_index] = deque([(0, {})])

    def allocate(
        self, num_slots_by_name: Mapping[str, int], reports: Sequence[WorkerReport]
    ) -> list[dict[str, SlotAllocation]]:
        """The allocation of each worker by replica, from the last report of each worker."""
        for limits_in_use, report in zip(self._limits_in_use, reports, strict=True):
            while len(limits_in_use) > 1 and limits_in_use[0][0] < report.peers_version:
                limits_in_use.popleft()
        slots: list[dict[str, SlotAllocation]] = [{} for _ in reports]
        for name, num_slots in num_slots_by_name.items():
            demands = [report.demands.get(name, _NO_DEMAND) for report in reports]
            limits = self._limits(name, num_slots, demands)
            wanted = [demand.num_held + demand.num_waiting for demand in demands]
            num_waiting = sum(demand.num_waiting for demand in demands)
            num_held = sum(demand.num_held for demand in demands)
            for index, limit in enumerate(limits):
                wanted_if_greedy = [*wanted[:index], num_slots, *wanted[index + 1 :]]
                slots[index][name] = SlotAllocation(
                    num_slots=num_slots,
                    limit=limit,
                    fair_share=divide_fairly(wanted_if_greedy, num_slots)[index],
                    num_waiting_in_peers=num_waiting - demands[index].num_waiting,
                    num_held_by_peers=num_held - demands[index].num_held,
                )
        return slots

    def _limits(self, name: str, num_slots: int, demands: Sequence[SlotDemand]) -> list[int]:
        taken = [
            max(demand.num_held, *(limits.get(name, 0) for _, limits in limits_in_use))
            for demand, limits_in_use in zip(demands, self._limits_in_use, strict=True)
        ]
        num_free = max(0, num_slots - sum(taken))
        limits = []
        for target, num_taken in zip(_targets(demands, num_slots), taken, strict=True):
            increase = min(max(0, target - num_taken), num_free)
            num_free -= increase
            limits.append(min(target, num_taken) + increase)
        return limits


def _targets(demands: Sequence[SlotDemand], num_slots: int) -> list[int]:
    wanted = [demand.num_held + demand.num_waiting for demand in demands]
    shares = divide_fairly(wanted, num_slots)
    spare = divide_fairly([num_slots] * len(demands), num_slots - sum(shares))
    return [share + extra for share, extra in zip(shares, spare, strict=True)]


def divide_fairly(wanted: Sequence[int], num_slots: int) -> list[int]:
    """Divide slots by max-min fairness.

    No one gets more than it wants; what one does not want is divided among the others. An
    indivisible remainder goes to the first ones.

    >>> divide_fairly([10, 1, 10], 8)
    [4, 1, 3]
    """
    shares = [0] * len(wanted)
    num_left = min(num_slots, sum(wanted))
    while num_left:
        unsatisfied = [index for index, number in enumerate(wanted) if number > shares[index]]
        each = max(1, num_left // len(unsatisfied))
        for index in unsatisfied:
            granted = min(each, wanted[index] - shares[index], num_left)
            shares[index] += granted
            num_left -= granted
    return shares
