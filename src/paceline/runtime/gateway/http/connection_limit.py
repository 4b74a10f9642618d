"""`ConnectionLimit`: bound the connections of a port, and choose the one that ends for a new one.

Without that choice, clients that open connections and send nothing would keep all others out.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

_Connection = TypeVar("_Connection")


class ConnectionLimit(Generic[_Connection]):
    """The connections of one port in one process.

    A new connection beyond the limit replaces the one that has waited longest for a request: first
    among those that are idle or in a head, then among those whose body is not complete. It is
    refused only when all are being answered. No method calls a connection.

    >>> limit = ConnectionLimit[str](2)
    >>> limit.add("a"), limit.add("b"), limit.add("c")
    (None, None, 'a')
    """

    def __init__(self, max_connections: int) -> None:
        self._max_connections = max_connections
        self._all: set[_Connection] = set()
        self._waiting: OrderedDict[_Connection, None] = OrderedDict()
        """Idle, or in a head; the longest wait first."""
        self._uploading: OrderedDict[_Connection, None] = OrderedDict()
        """The head is complete, the body is not."""

    def add(self, connection: _Connection) -> _Connection | None:
        """Count a new connection, which waits for a request.

        Returns the one to close, which may be the new one, and counts it no more; None within the
        limit.
        """
        if len(self._all) >= self._max_connections:
            replaced = self._longest_wait()
            if replaced is None:
                return connection
            self.remove(replaced)
        else:
            replaced = None
        self._all.add(connection)
        self._waiting[connection] = None
        return replaced

    def remove(self, connection: _Connection) -> None:
        """The connection ends. May be repeated."""
        self._all.discard(connection)
        self.set_answering(connection)

    def set_waiting(self, connection: _Connection) -> None:
        """The wait for its next request begins. No effect on one that is not counted."""
        self.set_answering(connection)
        if connection in self._all:
            self._waiting[connection] = None

    def set_uploading(self, connection: _Connection) -> None:
        """The head of its request is complete. No effect on one that is not counted."""
        self.set_answering(connection)
        if connection in self._all:
            self._uploading[connection] = None

    def set_answering(self, connection: _Connection) -> None:
        """Its request is complete: no new connection replaces it before `set_waiting`."""
        self._waiting.pop(connection, None)
        self._uploading.pop(connection, None)

    def _longest_wait(self) -> _Connection | None:
        return next(iter(self._waiting or self._uploading), None)

    def __repr__(self) -> str:
        return (
            f"ConnectionLimit({len(self._all)} of {self._max_connections}, "
            f"{len(self._waiting)} waiting, {len(self._uploading)} uploading)"
        )
