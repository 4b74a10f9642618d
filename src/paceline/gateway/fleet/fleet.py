"""Which replicas are there, local and remote, and who may change that?

The one `ReplicaSource` of the gateway: the engines of this machine as their owner tells them, and
the remote replicas that this fleet watches. It owns the tasks, which end with it. Changes made at
run time last as long as it does.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import TracebackType
from typing import Any

from paceline.gateway.fleet.load import ReplicaLoad
from paceline.gateway.fleet.local import LocalEngines
from paceline.gateway.fleet.member import Member
from paceline.gateway.fleet.membership import resolve_change
from paceline.gateway.fleet.resolver import Resolve, resolve_host
from paceline.gateway.fleet.status import NameStatus, ReplicaStatus
from paceline.gateway.replicas import Replica, ReplicaSource
from paceline.gateway.settings import FleetSettings
from paceline.gateway.settings.replica_entry import ReplicaEntry, member_url

logger = logging.getLogger(__name__)

_IDLE_CHECK_S = 0.1
"""Chosen by hand: how often a replica that goes is looked at for its last request."""
_JITTER_FRACTION = 0.1
"""Chosen by hand: periods vary by as much, so that gateways started together drift apart."""


class Clash(Exception):
    """There is such a replica already, or it cannot be changed so; the message says why."""


class UnknownReplica(Exception):
    """There is no replica and no DNS entry of that name."""


class _Name:
    """A DNS entry and what it stood for last."""

    def __init__(self, entry: ReplicaEntry) -> None:
        self.entry = entry
        self.num_absences: Mapping[str, int] = {}
        self.failure = "not resolved yet"
        self.is_draining = False


class Fleet:
    """All replicas. An async context manager; `replicas` answers from memory.

    Everything but its tasks is synchronous: state changes between awaits.
    """

    def __init__(
        self,
        settings: FleetSettings,
        local: ReplicaSource,
        num_in_flight: Callable[[str], int],
        *,
        resolve: Resolve = resolve_host,
    ) -> None:
        """`num_in_flight` tells how many requests a replica holds; it is only ever asked."""
        self._settings = settings
        self._local = LocalEngines(local, settings, self._jitter)
        self._num_in_flight = num_in_flight
        self._resolve = resolve
        self._members: dict[str, Member] = {}
        self._names: dict[str, _Name] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Fleet:
        try:
            for entry in self._settings.entries:
                self.add(entry)
        except Clash:
            await self._end_tasks()
            raise
        self._start("local loads", self._local.run())
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._end_tasks()

    def __repr__(self) -> str:
        return f"Fleet({ {r.name: r.state for r in self.replicas()} })"

    # What is there

    def replicas(self) -> Sequence[Replica]:
        """As `ReplicaSource`. The model of one that has not said it yet is empty."""
        return [*self._local.replicas(), *(member.replica for member in self._members.values())]

    def statuses(self) -> Sequence[ReplicaStatus]:
        """All replicas with what operators want to know of them."""
        members = [self._status(member) for member in self._members.values()]
        return [*self._local.statuses(), *members]

    def names(self) -> Sequence[NameStatus]:
        """The DNS entries."""
        return [
            NameStatus(
                name=name.entry.label,
                dns=name.entry.dns or "",
                addresses=tuple(name.num_absences),
                failure=name.failure,
                is_draining=name.is_draining,
            )
            for name in self._names.values()
        ]

    def loads(self) -> Mapping[str, ReplicaLoad]:
        """What the replicas said of their load; those that did not say so lately are left out."""
        now_s, max_age_s = time.monotonic(), self._settings.load_age_max_s
        current = {s.replica.name: s.load.current(now_s, max_age_s) for s in self.statuses()}
        return {name: load for name, load in current.items() if load is not None}

    def _status(self, member: Member) -> ReplicaStatus:
        name = self._names.get(member.entry.label)
        return member.status(name is not None and name.is_draining)

    # What operators change

    def add(self, entry: ReplicaEntry) -> None:
        """Take in a replica, or all behind a DNS name. May raise `Clash`.

        It takes traffic once it has answered and been warmed up.
        """
        taken = {replica.name for replica in self.replicas()} | set(self._names)
        if entry.label in taken:
            raise Clash(f"There is a replica called {entry.label!r} already; give another name.")
        if entry.dns is not None:
            if any(name.entry.dns == entry.dns for name in self._names.values()):
                raise Clash(f"The DNS name {entry.dns} is in use already.")
            name = _Name(entry)
            self._names[entry.label] = name
            self._start(entry.label, self._follow(name))
        elif entry.url is not None:
            holder = self._holder_of(entry.url)
            if holder is not None:
                raise Clash(f"{entry.url} is the replica {holder!r} already.")
            self._join(entry.label, entry.url, entry)

    def set_draining(self, name: str, is_draining: bool) -> None:
        """Give no new requests to a replica, or to all behind a DNS name; or give them again.

        Those that it has end as ever. May raise `UnknownReplica`, and `Clash` for one that goes.
        """
        if name in self._names:
            self._names[name].is_draining = is_draining
            for member in self._members.values():
                if member.entry is self._names[name].entry:
                    member.set_draining(is_draining)
        elif name in self._members:
            member = self._members[name]
            if member.is_leaving:
                raise Clash(f"{name!r} is being removed; add it again once it is gone.")
            member.set_draining(is_draining)
        elif self._local.has(name):
            self._local.set_draining(name, is_draining)
        else:
            raise UnknownReplica(name)

    def remove(self, name: str) -> bool:
        """Take out a replica, or all behind a DNS name; those with requests go when these end.

        True when all are gone at once. May raise `UnknownReplica`, and `Clash` for a local engine
        or for one address behind a DNS name.
        """
        if name in self._names:
            entry = self._names.pop(name).entry
            self._stop(name)
            leaving = [member for member in self._members.values() if member.entry is entry]
        elif name in self._members:
            member = self._members[name]
            if member.entry.label in self._names:
                raise Clash(
                    f"{name!r} comes from the DNS entry {member.entry.label!r}; remove that "
                    "one, or drain this one."
                )
            leaving = [member]
        elif self._local.has(name):
            raise Clash(f"{name!r} is an engine of this machine; it can be drained, not removed.")
        else:
            raise UnknownReplica(name)
        for member in leaving:
            self._leave(member)
        return not any(member.name in self._members for member in leaving)

    def _holder_of(self, address: str) -> str | None:
        return next((r.name for r in self.replicas() if r.address == address), None)

    # Coming and going

    def _join(self, name: str, address: str, entry: ReplicaEntry) -> Member:
        member = Member(name, address, entry, self._settings, self._jitter)
        self._members[name] = member
        self._start(name, member.run())
        return member

    def _leave(self, member: Member) -> None:
        self._stop(member.name)
        member.set_leaving(True)
        if self._num_in_flight(member.name) == 0:
            del self._members[member.name]
        else:
            self._start(member.name, self._remove_when_idle(member))

    async def _remove_when_idle(self, member: Member) -> None:
        while self._num_in_flight(member.name):  # noqa: ASYNC110 - the ledger has no event
            await asyncio.sleep(_IDLE_CHECK_S)
        del self._members[member.name]

    async def _follow(self, name: _Name) -> None:
        """Resolve a name again and again."""
        host, port = name.entry.host_and_port
        while True:
            resolved: Sequence[str] = ()
            try:
                async with asyncio.timeout(self._settings.poll_timeout_s):
                    resolved = await self._resolve(host, port)
                name.failure = "" if resolved else "it has no addresses"
            except TimeoutError:
                name.failure = f"not resolved within {self._settings.poll_timeout_s:g} s"
            except (OSError, ValueError) as error:  # ValueError: a label that no DNS name may have
                name.failure = f"cannot be resolved: {error}"
            self._apply(name, resolved)
            await asyncio.sleep(self._jitter(self._settings.dns_period_s))

    def _apply(self, name: _Name, resolved: Sequence[str]) -> None:
        change = resolve_change(name.num_absences, resolved)
        num_absences = dict(change.num_absences)
        for address in change.leaving:
            member = self._members.get(f"{name.entry.label}@{address}")
            if member is not None:
                self._leave(member)
        for address in change.joining:
            if self._join_behind(name, address):
                num_absences[address] = 0
        name.num_absences = num_absences

    def _join_behind(self, name: _Name, address: str) -> bool:
        """Take in one address; False when another entry has it, which stays as it is."""
        member_name = f"{name.entry.label}@{address}"
        url = member_url(address, name.entry.host_and_port[1])
        member = self._members.get(member_name)
        if member is not None:
            if member.entry is not name.entry:
                return False  # still ending what an entry removed since has left it
            self._stop(member_name)  # it was leaving, and is back
            member.set_leaving(False)
            self._start(member_name, member.run())
        elif self._holder_of(url) is None:
            member = self._join(member_name, url, name.entry)
        else:
            return False
        member.set_draining(name.is_draining)
        return True

    # Tasks

    @staticmethod
    def _jitter(period_s: float) -> float:
        return period_s * random.uniform(1 - _JITTER_FRACTION, 1 + _JITTER_FRACTION)

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name=f"fleet: {name}")
        self._tasks[name] = task
        task.add_done_callback(lambda ended: self._ended(name, ended))

    def _stop(self, name: str) -> None:
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()

    async def _end_tasks(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(name) is task:
            del self._tasks[name]
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("the task %r of the fleet failed", name, exc_info=error)
