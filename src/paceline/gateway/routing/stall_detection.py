"""`ProgressWatch`: find replicas that are hung although they accept connections.

vLLM's API server may answer `/health` while its engine is stalled (vllm #39863). The symptom is
that no stream receives a byte. This module decides from the times at which bytes arrive;
`proxy.lease` ends the attempts and trips the breaker, and the caller of the gateway restarts the
engine.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum, auto

from paceline.gateway.settings import FailureSettings

_TIMES_USUAL = 4.0
"""A silence this many times as long as the longest usual one is a stall. Chosen empirically."""
_MAX_STREAMS = 3
"""More silent streams than this are no stronger evidence. Chosen empirically."""
_MEMORY_S = 300.0
"""The longest silence is that of the last 5 to 10 minutes."""
_MAX_CALL_GAP_S = 5.0
"""When `stalled` was not called for longer than this, the gateway itself was suspended."""


class _State(Enum):
    FIRST = auto()
    """No byte yet."""
    LISTENING = auto()
    """The gateway waits for its next bytes."""
    SENDING = auto()
    """The client receives the last bytes."""


class WatchedStream:
    """One streamed attempt, from `began` to `ended`."""

    __slots__ = ("_replica", "_state")

    def __init__(self, replica: _Replica) -> None:
        self._replica = replica
        self._state = _State.FIRST


class ProgressWatch:
    """Watches streams only: answers in one piece are silent until they end.

    A replica is stalled when some stream waits for its bytes and none has had any for longer than

        limit = min(max(floor, 4 · usual), ceiling),

    where `usual` is the longest silence of this replica that ended, in the last 5 to 10 minutes.
    While streams that have begun wait, floor is `silence_s` / min(num_streams, 3): one stream may
    be silent because the engine holds a tool call until it is complete, several rarely are at the
    same time; ceiling is the time limit of a single stream. While no waiting stream has received a
    byte, floor is `first_silence_s`, and ceiling the time limit for first bytes. The two kinds of
    silence are learned separately.

    Streams whose client does not read do not count, nor does time in which the gateway itself was
    suspended. Limitations: a replica that has had only short prompts and works on nothing but one
    whose prefill takes longer than `first_silence_s` counts as hung; a replica without streams is
    never found.

    >>> watch = ProgressWatch(FailureSettings(silence_s=30), 120, 300)
    >>> stream = watch.began("a", now_s=0.0)
    >>> watch.note_bytes(stream, now_s=1.0)
    >>> watch.note_sent(stream, now_s=1.0)
    >>> [watch.stalled(float(now_s)) for now_s in (5, 10, 15, 20, 25, 30, 35)]
    [[], [], [], [], [], [], ['a']]
    """

    def __init__(
        self, settings: FailureSettings, stall_timeout_s: float, first_byte_timeout_s: float
    ) -> None:
        """The two time limits of a single stream are the ceilings."""
        self._settings = settings
        self._stall_timeout_s = stall_timeout_s
        self._first_byte_timeout_s = first_byte_timeout_s
        self._replicas: dict[str, _Replica] = {}
        self._called_at_s: float | None = None

    def began(self, name: str, now_s: float) -> WatchedStream:
        """A streamed attempt was sent. Pass each result to `ended`, exactly once."""
        replica = self._replicas.get(name)
        if replica is None:
            replica = self._replicas[name] = _Replica()
        if not replica.num_waiting:
            replica.silent_since_s = now_s
        replica.num_first += 1
        return WatchedStream(replica)

    def note_bytes(self, stream: WatchedStream, now_s: float) -> None:
        """Bytes arrived; the stream waits for none until `note_sent`. Called for every chunk."""
        replica, state = stream._replica, stream._state
        replica.note_bytes(now_s)
        replica.leave(state)
        stream._state = _State.SENDING

    def note_sent(self, stream: WatchedStream, now_s: float) -> None:
        """The client has received them; the gateway waits for the next bytes."""
        replica = stream._replica
        if not replica.num_listening:
            replica.silent_since_s = now_s
        replica.num_listening += 1
        stream._state = _State.LISTENING

    def ended(self, stream: WatchedStream) -> None:
        """The attempt has ended, in whatever way."""
        stream._replica.leave(stream._state)

    def stalled(self, now_s: float) -> list[str]:
        """The replicas that are hung. Call it about once a second."""
        if self._called_at_s is not None and now_s - self._called_at_s > _MAX_CALL_GAP_S:
            for replica in self._replicas.values():
                replica.silent_since_s += now_s - self._called_at_s
        self._called_at_s = now_s
        return [
            name
            for name, replica in self._replicas.items()
            if replica.num_waiting and now_s - replica.silent_since_s > self._limit_s(replica)
        ]

    def forget(self, names_left: Collection[str]) -> None:
        """Drop all replicas but these; streams of the others may still end."""
        for name in self._replicas.keys() - set(names_left):
            del self._replicas[name]

    def _limit_s(self, replica: _Replica) -> float:
        if replica.num_listening:
            floor_s = self._settings.silence_s / min(replica.num_listening, _MAX_STREAMS)
            usual_s, ceiling_s = replica.longest.value, self._stall_timeout_s
        else:
            floor_s = self._settings.first_silence_s
            usual_s, ceiling_s = replica.longest_first.value, self._first_byte_timeout_s
        return min(max(floor_s, _TIMES_USUAL * usual_s), ceiling_s)


class _Replica:
    __slots__ = ("longest", "longest_first", "num_first", "num_listening", "silent_since_s")

    def __init__(self) -> None:
        self.num_first = 0
        self.num_listening = 0
        self.silent_since_s = 0.0
        """Meaningful while a stream waits."""
        self.longest = _RecentMaximum()
        self.longest_first = _RecentMaximum()

    @property
    def num_waiting(self) -> int:
        return self.num_first + self.num_listening

    def note_bytes(self, now_s: float) -> None:
        longest = self.longest if self.num_listening else self.longest_first
        longest.note(now_s - self.silent_since_s, now_s)
        self.silent_since_s = now_s

    def leave(self, state: _State) -> None:
        if state is _State.FIRST:
            self.num_first -= 1
        elif state is _State.LISTENING:
            self.num_listening -= 1


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
        if self._began_at_s is None:
            self._began_at_s = now_s
        elif now_s - self._began_at_s >= _MEMORY_S:
            self._before, self._now, self._began_at_s = self._now, 0.0, now_s
        if value > self._now:
            self._now = value
