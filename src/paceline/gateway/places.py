"""How many requests may this process answer, where others answer on the same port?

A decision on numbers, for one model. What the others hold comes from `workers`; who waits for a
place is kept in `admission`. Alone, a process may use every place there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Places:
    """The places of one model, as far as this process is concerned."""

    num_slots: int
    """Those that it can count on while others want some too; 0 when no replica can take any."""
    limit: int
    """Requests that it may hold just now."""
    num_waiting_elsewhere: int = 0
    """Requests that wait in the other processes."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What one process holds of a model's places, and how many requests wait there."""

    num_held: int = 0
    num_waiting: int = 0


class Neighbours(Protocol):
    """The other processes on the data port, as known at this moment. Answers from memory."""

    def num_in_flight(self, replica_name: str) -> int:
        """Requests that they have sent to the replica."""
        ...

    def places(self, model: str, num_slots: int) -> Places:
        """This process's part of the model's slots."""
        ...


def all_of_them(num_slots: int) -> Places:
    """The part of a process that is alone."""
    return Places(num_slots, num_slots)


class NoNeighbours:
    """One process has the port to itself."""

    def num_in_flight(self, replica_name: str) -> int:
        return 0

    def places(self, model: str, num_slots: int) -> Places:
        return all_of_them(num_slots)


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


def places_among(others: Sequence[Demand], place: int, num_known: int, num_slots: int) -> Places:
    """The part of the process at `place` in the order of all, the others being in that order too.

    `num_known` is what the others may take this process to hold: the least of what it has told
    them lately. Of the places that are free by what is known it may take one in N, rounded up:
    if all N do so at the same moment, unseen by each other, then no more than N - 1 requests too
    many are let in. Whoever is alone in wanting places has them all after a few exchanges: after
    k of them 1 - (1 - 1/N)^k. A place whose holder has not told yet that it is free stays with its
    holder, who may give it to the next that waits there.

    While requests wait elsewhere, nobody goes beyond its fair share (`divide`): places above it are
    not given again when they become free, and the others take them.

    Where it fails: with fewer slots than processes, the last ones get none as long as requests
    wait in all of them.

    >>> places_among([Demand(0, 0)], 0, num_known=0, num_slots=4).limit
    2
    >>> places_among([Demand(0, 0)], 0, num_known=2, num_slots=4).limit
    3
    """
    num_processes = len(others) + 1
    num_free = num_slots - num_known - sum(one.num_held for one in others)
    limit = num_known + (-(-num_free // num_processes) if num_free > 0 else num_free)
    wanted = [one.num_held + one.num_waiting for one in others]
    wanted.insert(place, num_slots)  # whatever it wants now: this is what it could get
    share = divide(wanted, num_slots)[place]
    num_waiting = sum(one.num_waiting for one in others)
    return Places(
        num_slots=max(share, min(num_slots, 1)),
        limit=min(limit, share) if num_waiting else limit,
        num_waiting_elsewhere=num_waiting,
    )
