"""All replicas of the gateway, local and remote, and the operations that change them.

`Fleet` is the gateway's one `ReplicaSource` and `SignalSource`. The owner of the local engines
reports their state; remote replicas are polled here. The fleet owns the polling tasks, which end
with it. Changes made at run time are kept in memory only.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType

from paceline.runtime.gateway.fleet.dns_addresses import update_addresses
from paceline.runtime.gateway.fleet.dns_entry import DnsEntry, Resolve, resolve_host
from paceline.runtime.gateway.fleet.load import ReplicaLoad
from paceline.runtime.gateway.fleet.local_engines import LocalEngines
from paceline.runtime.gateway.fleet.named_tasks import NamedTasks
from paceline.runtime.gateway.fleet.remote_replica import RemoteReplica
from paceline.runtime.gateway.fleet.status import DnsEntryStatus, LoadReading, ReplicaStatus
from paceline.runtime.gateway.replicas import Replica, ReplicaSource
from paceline.runtime.gateway.settings import FleetSettings
from paceline.runtime.gateway.settings.fleet import MAX_REPLICAS
from paceline.runtime.gateway.settings.replica_entry import ReplicaEntry
from paceline.runtime.gateway.signals import ReplicaSignals

_IDLE_CHECK_S = 0.1
"""Time between two checks whether a leaving replica is idle. Chosen empirically."""
_SIGNALS_AGE_S = 0.1
"""How long the signals of all replicas are used before they are collected again. Chosen
empirically; the replicas are read every few seconds."""
_JITTER_FRACTION = 0.1
"""Periods vary by this fraction, so that gateways started together drift apart. Chosen
empirically."""


class FleetConflict(Exception):
    """The change contradicts the current replicas; the message says why."""


class UnknownReplica(Exception):
    """No replica and no DNS entry has that name."""


class Fleet:
    """All replicas. An async context manager; all methods answer from memory.

    Everything except the tasks is synchronous, so state changes only between awaits.
    """

    def __init__(
        self,
        settings: FleetSettings,
        local: ReplicaSource,
        num_in_flight: Callable[[str], int],
        *,
        resolve: Resolve = resolve_host,
        gateway_id: str = "",
    ) -> None:
        """`num_in_flight` returns the number of requests in flight on a replica. `gateway_id` is
        that of this gateway, by which it recognises an address of its own (`gateway.hops`)."""
        self._gateway_id = gateway_id
        self._settings = settings
        self._local = LocalEngines(local, settings, _jitter)
        self._num_in_flight = num_in_flight
        self._resolve = resolve
        self._remotes: dict[str, RemoteReplica] = {}
        self._dns_entries: dict[str, DnsEntry] = {}
        self._tasks = NamedTasks()
        self._signals: Mapping[str, ReplicaSignals] = {}
        self._signals_at_s = -math.inf

    async def __aenter__(self) -> Fleet:
        try:
            for entry in self._settings.entries:
                self.add(entry)
        except FleetConflict:
            await self._tasks.stop_all()
            raise
        self._tasks.start("local loads", self._local.run())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._tasks.stop_all()

    def __repr__(self) -> str:
        return f"Fleet({ {r.name: r.state for r in self.replicas()} })"

    # Current state

    def replicas(self) -> Sequence[Replica]:
        """See `ReplicaSource`. The model is empty while a replica has not reported it yet."""
        return [*self._local.replicas(), *(remote.replica for remote in self._remotes.values())]

    def statuses(self) -> Sequence[ReplicaStatus]:
        """All replicas in detail, for operators."""
        remotes = [self._status(remote) for remote in self._remotes.values()]
        return [*self._local.statuses(), *remotes]

    def dns_entries(self) -> Sequence[DnsEntryStatus]:
        return [dns_entry.status() for dns_entry in self._dns_entries.values()]

    def loads(self) -> Mapping[str, ReplicaLoad]:
        """The reported loads by replica, without those older than `load_age_max_s`."""
        now_s, max_age_s = time.monotonic(), self._settings.load_age_max_s
        current = {name: reading.current(now_s, max_age_s) for name, reading in self._readings()}
        return {name: load for name, load in current.items() if load is not None}

    def signals(self) -> Mapping[str, ReplicaSignals]:
        """See `SignalSource`. Kept for a moment, because routing reads them for every request."""
        now_s, max_age_s = time.monotonic(), self._settings.load_age_max_s
        if now_s - self._signals_at_s > _SIGNALS_AGE_S:
            found = {name: reading.signals(now_s, max_age_s) for name, reading in self._readings()}
            self._signals = {name: known for name, known in found.items() if known is not None}
            self._signals_at_s = now_s
        return self._signals

    def _readings(self) -> Iterator[tuple[str, LoadReading]]:
        yield from self._local.loads.items()
        yield from ((name, remote.load) for name, remote in self._remotes.items())

    def _status(self, remote: RemoteReplica) -> ReplicaStatus:
        dns_entry = self._dns_entries.get(remote.entry.label)
        return remote.status(dns_entry is not None and dns_entry.is_draining)

    def added_entries(self) -> Sequence[ReplicaEntry]:
        """The current entries that are not in the settings."""
        entries = [dns_entry.entry for dns_entry in self._dns_entries.values()]
        entries += [r.entry for r in self._remotes.values() if r.entry.url and not r.is_leaving]
        return [entry for entry in entries if entry not in self._settings.entries]

    # Changes by operators

    def add(self, entry: ReplicaEntry) -> None:
        """Add a replica, or all replicas of a DNS name. May raise `FleetConflict`.

        A replica takes traffic once it has passed a health check and the warm-up.
        """
        names_in_use = {replica.name for replica in self.replicas()} | set(self._dns_entries)
        if entry.label in names_in_use:
            raise FleetConflict(
                f"There is already a replica called {entry.label!r}; give another name."
            )
        if self._is_full:
            raise FleetConflict(
                f"There are {MAX_REPLICAS} remote replicas and DNS names, as many as one gateway "
                "takes; remove one first."
            )
        if entry.dns is not None:
            if any(other.entry.dns == entry.dns for other in self._dns_entries.values()):
                raise FleetConflict(f"The DNS name {entry.dns} is already in use.")
            dns_entry = DnsEntry(entry, self._resolve)
            self._dns_entries[entry.label] = dns_entry
            self._tasks.start(entry.label, self._follow(dns_entry))
        elif entry.url is not None:
            other_name = self._name_at(entry.url)
            if other_name is not None:
                raise FleetConflict(f"{entry.url} is already the replica {other_name!r}.")
            self._join(entry.label, entry.url, entry)

    def set_draining(self, name: str, is_draining: bool) -> None:
        """Drain a replica or all replicas of a DNS entry, or return them to service.

        A draining replica gets no new requests; its requests in flight complete. May raise
        `UnknownReplica`, and `FleetConflict` for a replica that is being removed.
        """
        if name in self._dns_entries:
            dns_entry = self._dns_entries[name]
            dns_entry.is_draining = is_draining
            for remote in self._remotes.values():
                if remote.entry is dns_entry.entry:
                    remote.set_draining(is_draining)
        elif name in self._remotes:
            remote = self._remotes[name]
            if remote.is_leaving:
                raise FleetConflict(f"{name!r} is being removed; add it again once it is gone.")
            remote.set_draining(is_draining)
        elif self._local.has(name):
            self._local.set_draining(name, is_draining)
        else:
            raise UnknownReplica(name)

    def set_restarting(self, name: str, is_restarting: bool) -> None:
        """Take a local engine out of service for a restart, or end that."""
        self._local.set_restarting(name, is_restarting)

    def remove(self, name: str) -> bool:
        """Remove a replica or all replicas of a DNS entry; a busy one leaves once it is idle.

        True if all of them are removed at once. May raise `UnknownReplica`, and `FleetConflict`
        for a local engine or a single address of a DNS entry.
        """
        if name in self._dns_entries:
            entry = self._dns_entries.pop(name).entry
            self._tasks.stop(name)
            leaving = [remote for remote in self._remotes.values() if remote.entry is entry]
        elif name in self._remotes:
            remote = self._remotes[name]
            if remote.entry.label in self._dns_entries:
                raise FleetConflict(
                    f"{name!r} comes from the DNS entry {remote.entry.label!r}; remove that "
                    "entry, or drain this replica."
                )
            leaving = [remote]
        elif self._local.has(name):
            raise FleetConflict(
                f"{name!r} is an engine of this machine; it can be drained, not removed."
            )
        else:
            raise UnknownReplica(name)
        for remote in leaving:
            self._leave(remote)
        return not any(remote.name in self._remotes for remote in leaving)

    @property
    def _is_full(self) -> bool:
        return len(self._remotes) + len(self._dns_entries) >= MAX_REPLICAS

    def _name_at(self, address: str) -> str | None:
        """Name of the replica with this address."""
        return next((r.name for r in self.replicas() if r.address == address), None)

    # Joining and leaving

    def _join(self, name: str, address: str, entry: ReplicaEntry) -> RemoteReplica:
        # An address that was added at run time may be any host: operators do not get to read it.
        is_configured = entry in self._settings.entries
        remote = RemoteReplica(
            name,
            address,
            entry,
            self._settings,
            _jitter,
            quotes_errors=is_configured,
            gateway_id=self._gateway_id,
        )
        self._remotes[name] = remote
        self._tasks.start(name, remote.run())
        return remote

    def _leave(self, remote: RemoteReplica) -> None:
        self._tasks.stop(remote.name)
        remote.set_leaving(True)
        if self._num_in_flight(remote.name) == 0:
            del self._remotes[remote.name]
        else:
            self._tasks.start(remote.name, self._remove_when_idle(remote))

    async def _remove_when_idle(self, remote: RemoteReplica) -> None:
        while self._num_in_flight(remote.name):  # noqa: ASYNC110 - the count has no event
            await asyncio.sleep(_IDLE_CHECK_S)
        del self._remotes[remote.name]

    async def _follow(self, dns_entry: DnsEntry) -> None:
        """Resolve a name periodically and apply the changes."""
        while True:
            resolved = await dns_entry.resolve(self._settings.poll_timeout_s)
            self._apply(dns_entry, resolved)
            await asyncio.sleep(_jitter(self._settings.dns_period_s))

    def _apply(self, dns_entry: DnsEntry, resolved: Sequence[str]) -> None:
        change = update_addresses(dns_entry.num_absences, resolved)
        num_absences = dict(change.num_absences)
        for address in change.leaving:
            remote = self._remotes.get(dns_entry.replica_name(address))
            if remote is not None:
                self._leave(remote)
        for address in change.joining:
            if self._join_address(dns_entry, address):
                num_absences[address] = 0
        dns_entry.num_absences = num_absences

    def _join_address(self, dns_entry: DnsEntry, address: str) -> bool:
        """Add one address of a DNS entry; False if another entry has it, which then keeps it, or
        if the fleet is full. It is tried again when the name is resolved the next time."""
        name, url = dns_entry.replica_name(address), dns_entry.replica_url(address)
        remote = self._remotes.get(name)
        if remote is not None:
            if remote.entry is not dns_entry.entry:
                return False  # it completes the last requests of an entry removed earlier
            self._tasks.stop(name)  # it was leaving and is back
            remote.set_leaving(False)
            self._tasks.start(name, remote.run())
        elif self._name_at(url) is None and not self._is_full:
            remote = self._join(name, url, dns_entry.entry)
        else:
            return False
        remote.set_draining(dns_entry.is_draining)
        return True


def _jitter(period_s: float) -> float:
    return period_s * random.uniform(1 - _JITTER_FRACTION, 1 + _JITTER_FRACTION)
