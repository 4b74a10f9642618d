"""Who holds what while a replica works on a request, and when is it given back?

One lease per attempt. It owns the in-flight count, the upstream connection and the outcome, and
gives all of them back exactly once, however the attempt ends.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import Protocol

from paceline.gateway.outcomes import Outcome
from paceline.gateway.replicas import Replica


class Closable(Protocol):
    def close(self) -> None:
        """Give the connection up at once; the engine takes that as an abort. May be repeated."""
        ...


class Lease:
    """Use it as an async context manager; the count rises on entering, without suspending."""

    def __init__(self, replica: Replica, ledger: Ledger) -> None:
        self.replica = replica
        self._ledger = ledger
        self._outcome: Outcome | None = None
        self._upstream: Closable | None = None

    @property
    def outcome(self) -> Outcome | None:
        """How the attempt ended; None while nobody has said so."""
        return self._outcome

    def end(self, outcome: Outcome) -> None:
        """Say how the attempt ended. The first word counts: later ones are its consequences."""
        if self._outcome is None:
            self._outcome = outcome

    def own(self, upstream: Closable) -> None:
        """Have this connection closed when the lease ends."""
        self._upstream = upstream

    async def __aenter__(self) -> Lease:
        self._ledger._raise(self.replica.name)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, asyncio.CancelledError):
            self.end(Outcome.SHUT_DOWN)
        else:
            self.end(Outcome.INTERNAL_ERROR)
        assert self._outcome is not None
        if self._upstream is not None:
            self._upstream.close()
        self._ledger._release(self.replica.name, self._outcome)


class Ledger:
    """Requests in flight per replica. `repr` shows them."""

    def __init__(self, on_release: Callable[[str, Outcome], None] | None = None) -> None:
        self._in_flight: Counter[str] = Counter()
        self._on_release = on_release

    def lease(self, replica: Replica) -> Lease:
        return Lease(replica, self)

    def num_in_flight(self, replica_name: str) -> int:
        return self._in_flight[replica_name]

    def _raise(self, name: str) -> None:
        self._in_flight[name] += 1

    def _release(self, name: str, outcome: Outcome) -> None:
        self._in_flight[name] -= 1
        if not self._in_flight[name]:
            del self._in_flight[name]  # replicas come and go; the ledger stays small
        if self._on_release is not None:
            self._on_release(name, outcome)

    def __repr__(self) -> str:
        return f"Ledger({dict(self._in_flight)})"
