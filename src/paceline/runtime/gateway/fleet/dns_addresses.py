"""Decide which replicas join and leave when a DNS name is resolved again.

A pure decision. An address that disappears is drained, not dropped: in Kubernetes a pod leaves its
DNS name before it ends. An empty or failed answer changes nothing: a broken resolver must not
empty the fleet, and replicas that are really gone stop answering health polls.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

MAX_ADDRESSES = 256
"""Bounds what one DNS name can add to the gateway. Chosen empirically, far above fleets in use."""

_ABSENCES_BEFORE_LEAVING = 2
"""Some DNS servers return a varying subset of many addresses, so one absence proves nothing."""


@dataclass(frozen=True, slots=True)
class AddressChange:
    """How the addresses of one DNS name changed."""

    joining: tuple[str, ...]
    leaving: tuple[str, ...]
    num_absences: Mapping[str, int]
    """By address that stays: the number of consecutive answers that lacked it."""


def update_addresses(num_absences: Mapping[str, int], resolved: Iterable[str]) -> AddressChange:
    """Compare the known addresses (with their absences so far) with a new answer.

    >>> update_addresses({"10.0.0.1": 1, "10.0.0.2": 0}, ["10.0.0.2", "10.0.0.3"])
    AddressChange(joining=('10.0.0.3',), leaving=('10.0.0.1',), num_absences={'10.0.0.2': 0})
    """
    found = list(dict.fromkeys(resolved))[:MAX_ADDRESSES]
    if not found:
        return AddressChange((), (), dict(num_absences))
    counted = {
        address: 0 if address in found else absences + 1
        for address, absences in num_absences.items()
    }
    leaving = tuple(a for a, absences in counted.items() if absences >= _ABSENCES_BEFORE_LEAVING)
    return AddressChange(
        joining=tuple(address for address in found if address not in counted),
        leaving=leaving,
        num_absences={a: absences for a, absences in counted.items() if a not in leaving},
    )
