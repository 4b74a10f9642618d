"""Which replicas come and go when a DNS name is resolved again?

A decision. An address that is gone is drained, not dropped: in Kubernetes a pod leaves its name
before it ends. A name that answers with nothing, or not at all, changes nothing: a resolver in
trouble must not take the fleet out, and replicas that have really gone stop answering polls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

MAX_ADDRESSES = 256
"""Chosen by hand, far above fleets in use: a name must not grow the gateway without bound."""

_ABSENCES_BEFORE_LEAVING = 2
"""Some servers answer with a changing part of many addresses; one absence means nothing yet."""


@dataclass(frozen=True, slots=True)
class Change:
    """What to do about the addresses behind one name."""

    joining: tuple[str, ...]
    leaving: tuple[str, ...]
    num_absences: Mapping[str, int]
    """Of the addresses that stay, in how many answers in a row each was missing."""


def resolve_change(num_absences: Mapping[str, int], resolved: Iterable[str]) -> Change:
    """From the addresses known (with their absences so far) and those resolved just now.

    >>> resolve_change({"10.0.0.1": 1, "10.0.0.2": 0}, ["10.0.0.2", "10.0.0.3"])
    Change(joining=('10.0.0.3',), leaving=('10.0.0.1',), num_absences={'10.0.0.2': 0})
    """
    found = list(dict.fromkeys(resolved))[:MAX_ADDRESSES]
    if not found:
        return Change((), (), dict(num_absences))
    counted = {
        address: 0 if address in found else absences + 1
        for address, absences in num_absences.items()
    }
    leaving = tuple(a for a, absences in counted.items() if absences >= _ABSENCES_BEFORE_LEAVING)
    return Change(
        joining=tuple(address for address in found if address not in counted),
        leaving=leaving,
        num_absences={a: absences for a, absences in counted.items() if a not in leaving},
    )
