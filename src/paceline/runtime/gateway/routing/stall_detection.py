"""Find replicas that send nothing for too long, over all processes of the data port.

vLLM's API server may answer `/health` while its engine is stalled (vllm #39863). The symptom is
that no stream receives a byte. The functions here decide from the reports of `stream_progress`;
`gateway.hung_replicas` confirms a silence with the engine's own counters before anything is ended.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from paceline.runtime.gateway.routing.stream_progress import ProgressReport, ReplicaProgress
from paceline.runtime.gateway.settings import GatewaySettings

_TIMES_USUAL = 4.0
"""A silence this many times as long as the longest usual one is a stall. Chosen empirically."""
_CEILING_SHARE = 0.75
"""Of the time limit of a single stream. At that limit the streams would end one by one, which ends
the silence that the verdict stands on, and those whose clients do not read would stay. Chosen
empirically."""
_MAX_STREAMS = 3
"""More silent streams than this are no stronger evidence. Chosen empirically."""


@dataclass(frozen=True, slots=True)
class StallLimits:
    """In seconds."""

    silence_s: float
    first_silence_s: float
    stall_timeout_s: float
    first_byte_timeout_s: float
    """The last two are the time limits of a single stream."""

    @classmethod
    def of(cls, settings: GatewaySettings) -> StallLimits:
        failures = settings.failures
        return cls(
            failures.silence_s,
            failures.first_silence_s,
            settings.stall_timeout_s,
            settings.first_byte_timeout_s,
        )


@dataclass(frozen=True, slots=True)
class Silence:
    """The silence of one replica on which attempts wait."""

    replica: str
    since_s: float
    """When it began, on the monotonic clock."""
    limit_s: float
    silent_for_s: float
    """Up to the oldest of the reports."""
    has_streams: bool
    """Whether streams wait. Without one the silence shows nothing: answers that are not streamed
    are silent until they end."""

    @property
    def is_too_long(self) -> bool:
        return self.silent_for_s > self.limit_s


def silences(
    reports: Sequence[ProgressReport],
    limits: StallLimits,
    active_at_s: Mapping[str, float],
    down: Collection[str] = (),
) -> list[Silence]:
    """The replicas on which attempts wait, with the silence of each over all processes.

    `active_at_s` has, by replica, the moment at which the engine was last found active by its own
    counters; a silence begins no earlier. It lasts too long after

        limit = min(max(floor, 4 · usual), ceiling),

    where `usual` is the longest silence of this replica that ended, in the last 5 to 10 minutes.
    While streams that have begun wait, floor is `silence_s` / min(num_streams, 3): one stream may
    be silent because the engine holds a tool call until it is complete, several rarely are at the
    same time; ceiling is three quarters of the time limit of a single stream. While no waiting
    stream has received a token, floor is `first_silence_s`, and ceiling three quarters of the time
    limit for the first token. The two kinds of silence are learned separately.

    `down` names the replicas that answer no health check. Their limit is the floor: the longest
    silence may be that of an earlier hang, which ended when the process was resumed.

    Streams whose client does not read do not count.

    >>> limits = StallLimits(30, 60, 120, 300)
    >>> one = ProgressReport(50.0, {"a": ReplicaProgress(num_listening=3, bytes_at_s=20.0)})
    >>> two = ProgressReport(51.0, {"a": ReplicaProgress(bytes_at_s=42.0)})
    >>> [silence.silent_for_s for silence in silences([one], limits, {})]
    [30.0]
    >>> [silence.silent_for_s for silence in silences([one, two], limits, {})]
    [8.0]
    """
    names = {name for report in reports for name in report.replicas}
    found = []
    for name in sorted(names):
        parts = [report.replicas[name] for report in reports if name in report.replicas]
        silence = _silence(parts, limits, active_at_s.get(name, -math.inf), is_down=name in down)
        if silence is not None:
            since_s, limit_s, has_streams = silence
            silent_for_s = min(report.at_s for report in reports) - since_s
            found.append(Silence(name, since_s, limit_s, silent_for_s, has_streams))
    return found


def _silence(
    parts: Sequence[ReplicaProgress], limits: StallLimits, active_at_s: float, *, is_down: bool
) -> tuple[float, float, bool] | None:
    """(since when, limit, whether streams wait); None when no attempt waits."""
    no_earlier_s = max(active_at_s, *(part.bytes_at_s for part in parts))
    num_listening = sum(part.num_listening for part in parts)
    if num_listening:
        since_s = min(part.listening_since_s for part in parts if part.num_listening)
        floor_s = limits.silence_s / min(num_listening, _MAX_STREAMS)
        usual_s = max(part.longest_s for part in parts)
        ceiling_s = limits.stall_timeout_s
    else:
        waiting = [part.first_since_s for part in parts if part.num_first]
        waiting = waiting or [part.whole_since_s for part in parts if part.num_whole]
        if not waiting:
            return None
        since_s, floor_s = min(waiting), limits.first_silence_s
        usual_s = max(part.longest_first_s for part in parts)
        ceiling_s = limits.first_byte_timeout_s
    has_streams = num_listening > 0 or any(part.num_first for part in parts)
    if is_down:
        usual_s = 0.0
    limit_s = min(max(floor_s, _TIMES_USUAL * usual_s), _CEILING_SHARE * ceiling_s)
    return max(since_s, no_earlier_s), limit_s, has_streams
