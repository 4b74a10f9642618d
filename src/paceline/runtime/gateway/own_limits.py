"""Limits of the gateway's own process: descriptors, ports and memory, which no replica can change.

Every request in flight takes two descriptors, its client's connection and the one to its replica. A
process out of descriptors cannot reach any replica, which says nothing about the replicas.
"""

from __future__ import annotations

import errno
import os
import resource

from paceline.runtime.gateway.settings import GatewaySettings

_OWN_ERRNOS = frozenset(
    {
        errno.EMFILE,  # no descriptor left in this process
        errno.ENFILE,  # nor on this machine
        errno.EADDRNOTAVAIL,  # no local port left for this address
        errno.ENOBUFS,
        errno.ENOMEM,
    }
)
_MOST_DESCRIPTORS = 2**20
"""Linux allows a process no more than this by default (fs.nr_open)."""
_SPARE_DESCRIPTORS = 256
"""For idle connections, polls, files and libraries. Chosen empirically."""


def is_own_limit(error: BaseException) -> bool:
    """Whether a connection failed because of this process or machine, not of the other side."""
    return isinstance(error, OSError) and error.errno in _OWN_ERRNOS


def raise_descriptor_limit() -> int:
    """Set the soft limit of this process to its hard one; returns the limit in force.

    Processes started later inherit it.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return _MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):  # macOS refuses more than kern.maxfilesperproc
        return soft
    return wanted


def descriptor_limit() -> int:
    """Most files and connections that this process may have open at a time."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def num_open_descriptors() -> int:
    """Files and connections of this process; 0 on a system that does not list them."""
    try:
        return len(os.listdir("/dev/fd")) - 1  # without the one that lists them
    except OSError as error:
        return descriptor_limit() if is_own_limit(error) else 0


def descriptors_needed(settings: GatewaySettings, num_local_replicas: int) -> int:
    """Descriptors that one process may need at once, at the limits that are set.

    Any worker process may hold all slots of the data port. A DNS entry counts as one replica.

    >>> descriptors_needed(GatewaySettings(), num_local_replicas=1)
    1792
    """
    admission = settings.admission
    slots = [entry.max_in_flight or admission.max_in_flight for entry in settings.fleet.entries]
    num_slots = sum(slots) + num_local_replicas * admission.max_in_flight
    return 2 * num_slots + admission.max_queue + _SPARE_DESCRIPTORS


def max_data_connections(settings: GatewaySettings, limit: int) -> int:
    """`server.max_connections`, or fewer where a process may open only `limit` descriptors.

    Clients alone then never use them up, and probes and the admin port are still accepted: each
    connection takes at most one to a replica as well.

    >>> [max_data_connections(GatewaySettings(), limit) for limit in (65536, 4096)]
    [4096, 1440]
    """
    return max(1, min(settings.max_connections, (limit - _SPARE_DESCRIPTORS) * 3 // 8))


def max_admin_connections(settings: GatewaySettings, limit: int) -> int:
    """The same for the admin port, which may take an eighth."""
    return max(1, min(settings.max_connections, (limit - _SPARE_DESCRIPTORS) // 8))


def explain_shortage(limit: int, needed: int) -> str | None:
    """A message for the operator, or None when the limit is high enough."""
    if limit >= needed:
        return None
    return (
        f"a process may open {limit} files and connections, but the settings allow up to {needed} "
        "at once: two for each request in flight and one for each that waits. Beyond the limit "
        "clients are refused. Raise it (ulimit -n, LimitNOFILE= of systemd, --ulimit nofile= of "
        "Docker), or lower admission.max_in_flight or admission.max_queue"
    )
