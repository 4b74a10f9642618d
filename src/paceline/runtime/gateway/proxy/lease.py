"""`Lease`: what the gateway holds during one attempt; `LeaseTable`: all open leases.

One lease per attempt. It owns the in-flight count, the upstream connection, the breaker's ticket
and the outcome, and releases all of them exactly once, however the attempt ends.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from types import TracebackType
from typing import Protocol

from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.requests.plan import NO_COST, ONE_SEQUENCE, RequestCost
from paceline.runtime.gateway.routing.breaker import Breakers, BreakerState, Ticket
from paceline.runtime.gateway.routing.stream_progress import (
    ProgressReport,
    ProgressWatch,
    WatchedAttempt,
)


class Closable(Protocol):
    def close(self) -> None:
        """Close the connection at once; the engine takes that as an abort. May be repeated."""
        ...


class Traffic(Protocol):
    """The traffic of the data port, of all processes that serve it. Reads memory, without I/O."""

    def num_in_flight(self, replica_name: str) -> int: ...

    def breaker_states(self) -> Mapping[str, BreakerState]:
        """The breaker state of every replica that has had an attempt, as a copy."""
        ...


class _LeaseState(Enum):
    NEW = "new"
    OPEN = "open"
    """It counts; its attempt has not begun."""
    ENTERED = "entered"
    CLOSED = "closed"


class Lease:
    """Use it as an async context manager. The counts rise on entering, without suspending, or
    before, if `LeaseTable.claim` opened it."""

    __slots__ = (
        "_awaits_verdict", "_end_attempt", "_has_received_all", "_on_answer", "_outcome", "_state",
        "_table", "_upstream", "_watched", "cost", "has_answered", "replica", "ticket",
    )  # fmt: skip

    ticket: Ticket
    """Set when the lease is opened."""

    def __init__(self, replica: Replica, cost: RequestCost, table: LeaseTable) -> None:
        self.replica = replica
        self.cost = cost
        self._state = _LeaseState.NEW
        self._table = table
        self._outcome: Outcome | None = None
        self._upstream: Closable | None = None
        self._end_attempt: Callable[[], None] | None = None
        self._watched: WatchedAttempt | None = None
        self._has_received_all = False
        self._on_answer: Callable[[], None] | None = None
        self._awaits_verdict = False
        self.has_answered = False
        """The first bytes of a good answer arrived."""

    def end(self, outcome: Outcome, *, awaits_verdict: bool = False) -> None:
        """Set how the attempt ended. The first call counts: later ones are its consequences.

        With `awaits_verdict` the breaker counts it when `decided` of `ticket` is called.
        """
        if self._outcome is None:
            self._outcome = outcome
            self._awaits_verdict = awaits_verdict

    def own(self, upstream: Closable) -> None:
        """Have this connection closed when the lease ends."""
        self._upstream = upstream

    def answered(self) -> None:
        """The first bytes of a good answer arrived."""
        self.has_answered = True
        self.ticket.answered(time.monotonic())
        if self._on_answer is not None:
            self._on_answer()

    def on_answer(self, call: Callable[[], None]) -> None:
        """Have `answered` call this."""
        self._on_answer = call

    def watch_progress(self, *, is_stream: bool) -> None:
        """The request is sent now: the replica's silence counts from here on."""
        progress = self._table._progress
        self._watched = progress.began(self.replica.name, time.monotonic(), is_stream=is_stream)

    def got_bytes(self) -> None:
        """Bytes of the answer arrived from the replica."""
        assert self._watched is not None
        self._table._progress.note_bytes(self._watched, time.monotonic())

    def sent_bytes(self) -> None:
        """The client has received them; the gateway waits for the replica again."""
        assert self._watched is not None
        self._table._progress.note_sent(self._watched, time.monotonic())

    def received_all(self) -> None:
        """The gateway has the whole answer. Whatever happens to the replica, the attempt is not cut
        any more, and its silence does not count: a client may still read the end."""
        self._has_received_all = True
        if self._watched is not None:  # else the replica was only asked to detokenise
            self._table._progress.note_complete(self._watched)

    @property
    def is_cut(self) -> bool:
        """The attempt was ended from outside."""
        return self._outcome is not None

    def on_cut(self, end_attempt: Callable[[], None]) -> None:
        """Have `cut` call this, which must end the attempt wherever it is; it is called now if the
        attempt was cut before it began."""
        self._end_attempt = end_attempt
        if self.is_cut:
            end_attempt()

    def cut(self, outcome: Outcome) -> None:
        """End the attempt from outside, unless the gateway has the whole answer."""
        if self._has_received_all:
            return
        self.end(outcome)
        if self._end_attempt is not None:
            self._end_attempt()
        elif self._upstream is not None:
            self._upstream.close()

    def open(self) -> None:
        """Count the attempt from now on. Call `withdraw` unless the lease is entered."""
        assert self._state is _LeaseState.NEW
        self._state = _LeaseState.OPEN
        self.ticket = self._table._open_lease(self)

    def withdraw(self) -> None:
        """Close an open lease that was not entered; no effect on any other."""
        if self._state is _LeaseState.OPEN:
            self._close(Outcome.CLIENT_GONE)

    async def __aenter__(self) -> Lease:
        if self._state is _LeaseState.NEW:
            self.open()
        assert self._state is _LeaseState.OPEN
        self._state = _LeaseState.ENTERED
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        is_cancelled = isinstance(error, asyncio.CancelledError)
        self.end(Outcome.SHUT_DOWN if is_cancelled else Outcome.INTERNAL_ERROR)
        assert self._outcome is not None
        if self._upstream is not None:
            self._upstream.close()
        if self._watched is not None:
            self._table._progress.ended(self._watched)
        self._close(self._outcome)

    def _close(self, outcome: Outcome) -> None:
        self._state = _LeaseState.CLOSED
        self._table._close_lease(self, outcome, awaits_verdict=self._awaits_verdict)


class LeaseTable:
    """The open leases of every replica. `repr` shows how many."""

    def __init__(self, breakers: Breakers, progress: ProgressWatch) -> None:
        self.breakers = breakers
        self._progress = progress
        self._open: dict[str, set[Lease]] = {}
        self._costs: dict[str, RequestCost] = {}
        """Of the open leases, by replica."""

    def lease(self, replica: Replica, cost: RequestCost = ONE_SEQUENCE) -> Lease:
        """A lease that is not open yet."""
        return Lease(replica, cost, self)

    def claim(self, replica: Replica, cost: RequestCost) -> Lease:
        """An open lease, to be entered or withdrawn."""
        lease = Lease(replica, cost, self)
        lease.open()
        return lease

    def num_in_flight(self, replica_name: str) -> int:
        return len(self._open.get(replica_name, ()))

    def num_sequences(self, replica_name: str) -> int:
        """Sequences of the open attempts on this replica."""
        return self._costs.get(replica_name, NO_COST).num_sequences

    def cost(self, replica_name: str) -> RequestCost:
        """The summed cost of the open attempts on this replica."""
        return self._costs.get(replica_name, NO_COST)

    def costs(self) -> dict[str, RequestCost]:
        """The summed costs of the open attempts by replica, as a copy."""
        return dict(self._costs)

    def in_flight(self) -> dict[str, int]:
        """Open attempts by replica, as a copy; replicas without any are left out."""
        return {name: len(leases) for name, leases in self._open.items()}

    def addresses(self) -> set[str]:
        """Addresses of the replicas that have open attempts."""
        return {lease.replica.address for leases in self._open.values() for lease in leases}

    def progress(self) -> ProgressReport:
        """When the open attempts last received anything. Call it about once a second."""
        return self._progress.report(time.monotonic())

    def cut_hung(self, replica_name: str) -> None:
        """End all attempts on a replica that was found hung, and open its breaker."""
        self.breakers.trip(replica_name, time.monotonic())
        for lease in list(self._open.get(replica_name, ())):
            lease.cut(Outcome.TIMED_OUT)

    def found_ended(self, replica_name: str) -> None:
        """Open the breaker of a replica that broke off an answer and refuses connections now."""
        self.breakers.trip(replica_name, time.monotonic())

    def forget(self, names_left: Collection[str]) -> None:
        """Drop what is remembered of all replicas but these."""
        self.breakers.forget(names_left)
        self._progress.forget(names_left)

    def breaker_states(self) -> Mapping[str, BreakerState]:
        return self.breakers.states(time.monotonic())

    def _open_lease(self, lease: Lease) -> Ticket:
        name = lease.replica.name
        self._open.setdefault(name, set()).add(lease)
        self._costs[name] = self._costs.get(name, NO_COST) + lease.cost
        return self.breakers.began(name, time.monotonic())

    def _close_lease(self, lease: Lease, outcome: Outcome, *, awaits_verdict: bool) -> None:
        name = lease.replica.name
        leases = self._open[name]
        leases.remove(lease)
        self._costs[name] -= lease.cost
        if not leases:  # replicas come and go; the tables must not grow with them
            del self._open[name]
            del self._costs[name]
        if awaits_verdict:
            lease.ticket.suspended()
        else:
            lease.ticket.ended(outcome, time.monotonic())

    def __repr__(self) -> str:
        return f"LeaseTable({self.in_flight()})"
