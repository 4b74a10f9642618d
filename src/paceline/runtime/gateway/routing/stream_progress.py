"""`ProgressWatch`: when the attempts of this process last received anything, by replica.

Every process of the data port has one and reports its values. `stall_detection` decides over the
reports of all processes which replicas are silent for too long.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from enum import Enum, auto

_MEMORY_S = 300.0
"""The longest silence is that of the last 5 to 10 minutes."""
_MAX_REPORT_GAP_S = 5.0
"""When `report` was not called for longer than this, the gateway itself was suspended."""


@dataclass(frozen=True, slots=True)
class ReplicaProgress:
    """The attempts of one process on one replica. Moments are of the system's monotonic clock,
    which all processes of a machine share."""

    num_listening: int = 0
    """Streams that have begun and wait for the next bytes."""
    num_first: int = 0
    """Streams that wait for their first token."""
    num_whole: int = 0
    """Answers that are not streamed: they are silent until they end."""
    listening_since_s: float = 0.0
    """Since when there is a stream of the first kind; meaningless without one."""
    first_since_s: float = 0.0
    whole_since_s: float = 0.0
    bytes_at_s: float = 0.0
    """When bytes came last, over all attempts; 0 when none came."""
    longest_s: float = 0.0
    """The longest silence of streams that had begun, in the last 5 to 10 minutes."""
    longest_first_s: float = 0.0
    """The longest silence while no stream had begun."""


@dataclass(frozen=True, slots=True)
class ProgressReport:
    """The progress of one process."""

    at_s: float
    """When the report was made; later bytes are not in it."""
    replicas: dict[str, ReplicaProgress] = field(default_factory=dict)
    """By name."""


class _State(Enum):
    WHOLE = auto()
    """The answer is not streamed."""
    FIRST = auto()
    """No token yet."""
    LISTENING = auto()
    """The gateway waits for its next bytes."""
    SENDING = auto()
    """The client receives the last bytes."""


class WatchedAttempt:
    """One attempt, from `began` to `ended`."""

    __slots__ = ("_replica", "_state")

    def __init__(self, replica: _Replica, state: _State) -> None:
        self._replica = replica
        self._state = state


class ProgressWatch:
    """The attempts of one process. Time in which the process was suspended does not count.

    >>> watch = ProgressWatch()
    >>> attempt = watch.began("a", now_s=1.0, is_stream=True)
    >>> watch.note_bytes(attempt, now_s=2.0)
    >>> watch.note_sent(attempt, now_s=2.5)
    >>> progress = watch.report(now_s=3.0).replicas["a"]
    >>> progress.num_listening, progress.listening_since_s, progress.bytes_at_s
    (1, 2.5, 2.0)
    """

    def __init__(self) -> None:
        self._replicas: dict[str, _Replica] = {}
        self._reported_at_s: float | None = None

    def began(self, name: str, now_s: float, *, is_stream: bool) -> WatchedAttempt:
        """An attempt was sent. Pass each result to `ended`, exactly once."""
        replica = self._replicas.get(name)
        if replica is None:
            replica = self._replicas[name] = _Replica()
        attempt = WatchedAttempt(replica, _State.FIRST if is_stream else _State.WHOLE)
        replica.enter(attempt._state, now_s)
        return attempt

    def note_bytes(self, attempt: WatchedAttempt, now_s: float) -> None:
        """Bytes arrived; the attempt waits for none until `note_sent`. Called for every chunk."""
        replica = attempt._replica
        replica.note_bytes(now_s)
        replica.leave(attempt._state)
        attempt._state = _State.SENDING

    def note_sent(self, attempt: WatchedAttempt, now_s: float) -> None:
        """The client has received them; the gateway waits for the next bytes. No effect without
        `note_bytes` before: part of an event arrived, which is not sent yet."""
        if attempt._state is _State.SENDING:
            attempt._replica.enter(_State.LISTENING, now_s)
            attempt._state = _State.LISTENING

    def note_complete(self, attempt: WatchedAttempt) -> None:
        """The whole answer has arrived; the client may still read it. May be repeated."""
        attempt._replica.leave(attempt._state)
        attempt._state = _State.SENDING

    def ended(self, attempt: WatchedAttempt) -> None:
        """The attempt has ended, in whatever way."""
        attempt._replica.leave(attempt._state)

    def report(self, now_s: float) -> ProgressReport:
        """The progress now. Call it about once a second."""
        last_s, self._reported_at_s = self._reported_at_s, now_s
        if last_s is not None and now_s - last_s > _MAX_REPORT_GAP_S:
            for replica in self._replicas.values():
                replica.skip(now_s - last_s)
        replicas = {name: replica.progress() for name, replica in self._replicas.items()}
        return ProgressReport(now_s, replicas)

    def forget(self, names_left: Collection[str]) -> None:
        """Drop all replicas but these; attempts on the others may still end."""
        for name in self._replicas.keys() - set(names_left):
            del self._replicas[name]


_WAITING = (_State.LISTENING, _State.FIRST, _State.WHOLE)


class _Replica:
    __slots__ = ("_bytes_at_s", "_longest", "_longest_first", "_nums", "_since_s")

    def __init__(self) -> None:
        self._nums = dict.fromkeys(_State, 0)
        self._since_s = dict.fromkeys(_WAITING, 0.0)
        self._bytes_at_s = 0.0
        self._longest = _RecentMaximum()
        self._longest_first = _RecentMaximum()

    def enter(self, state: _State, now_s: float) -> None:
        if not self._nums[state]:
            self._since_s[state] = now_s
        self._nums[state] += 1

    def leave(self, state: _State) -> None:
        if state is not _State.SENDING:
            self._nums[state] -= 1

    def note_bytes(self, now_s: float) -> None:
        if self._nums[_State.LISTENING]:
            since_s = max(self._bytes_at_s, self._since_s[_State.LISTENING])
            self._longest.note(now_s - since_s, now_s)
        elif self._nums[_State.FIRST]:
            since_s = max(self._bytes_at_s, self._since_s[_State.FIRST])
            self._longest_first.note(now_s - since_s, now_s)
        self._bytes_at_s = now_s

    def skip(self, time_s: float) -> None:
        """Count nothing for this time."""
        self._bytes_at_s += time_s
        for state in _WAITING:
            self._since_s[state] += time_s

    def progress(self) -> ReplicaProgress:
        nums, since_s = self._nums, self._since_s
        return ReplicaProgress(
            num_listening=nums[_State.LISTENING],
            num_first=nums[_State.FIRST],
            num_whole=nums[_State.WHOLE],
            listening_since_s=since_s[_State.LISTENING],
            first_since_s=since_s[_State.FIRST],
            whole_since_s=since_s[_State.WHOLE],
            bytes_at_s=self._bytes_at_s,
            longest_s=self._longest.value,
            longest_first_s=self._longest_first.value,
        )


class _RecentMaximum:
    """The largest value of the last one to two periods of `_MEMORY_S`."""

    __slots__ = ("_before", "_began_at_s", "_now")

    def __init__(self) -> None:
        self._before = self._now = 0.0
        self._began_at_s: float | None = None

    @property
    def value(self) -> float:
        return max(self._before, self._now)

    def note(self, value: float, now_s: float) -> None:
        if self._began_at_s is None or now_s - self._began_at_s >= _MEMORY_S:
            self._before, self._now, self._began_at_s = self._now, value, now_s
        elif value > self._now:
            self._now = value
