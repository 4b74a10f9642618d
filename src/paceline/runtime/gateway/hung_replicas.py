"""`HungReplicas`: find hung replicas over all processes of the data port, and end their attempts.

Runs once, in the process that watches the replicas. `routing.stall_detection` decides from the
silence of the streams; a silence that is half as long as allowed has the engine's own counters
read, and once it is too long they are read again. An engine whose counters have moved works: it
computes a long prompt, or the requests of others.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from paceline.runtime.gateway.fleet.dialects import DIALECTS
from paceline.runtime.gateway.fleet.prober import Prober, ReplicaProbeFailed, ReplicaProbeNotSent
from paceline.runtime.gateway.replicas import Replica, ReplicaSource
from paceline.runtime.gateway.routing.stall_detection import Silence, StallLimits, silences
from paceline.runtime.gateway.routing.stream_progress import ProgressReport
from paceline.runtime.gateway.time_limits import HUNG_CHECK_PERIOD_S, HUNG_CONFIRM_TIMEOUT_S

logger = logging.getLogger(__name__)

Activity = tuple[float | None, ...]
"""Figures of which at least one changes while the engine works."""

ReadActivity = Callable[[Replica], Awaitable[Activity | None]]
"""The figures of an engine; None when it has none or does not answer. May raise
`ReplicaProbeNotSent`."""


class WatchedTraffic(Protocol):
    """The attempts of all processes of the data port. Does not block or raise."""

    def progress_reports(self) -> Sequence[ProgressReport]: ...

    def cut_hung(self, replica_name: str) -> None:
        """End all attempts on the replica, and keep others away from it for a while."""
        ...


@dataclass(frozen=True, slots=True)
class _Baseline:
    """The first reading of a silence."""

    since_s: float
    """When the silence began."""
    activity: Activity | None


class HungReplicas:
    """Call `run`, which ends when it is cancelled; `run_once` is one round."""

    def __init__(
        self,
        source: ReplicaSource,
        traffic: WatchedTraffic,
        limits: StallLimits,
        read_activity: ReadActivity,
        on_hung: Callable[[str], None],
    ) -> None:
        """`on_hung` is called with the name of each replica that is found hung."""
        self._source = source
        self._traffic = traffic
        self._limits = limits
        self._read_activity = read_activity
        self._on_hung = on_hung
        self._baselines: dict[str, _Baseline] = {}
        self._active_at_s: dict[str, float] = {}

    async def run(self) -> None:
        # Two readings have to fit between the shortest limit and the time limit of a stream.
        period_s = min(HUNG_CHECK_PERIOD_S, self._limits.silence_s / 4)
        while True:
            await asyncio.sleep(period_s)
            try:
                await self.run_once()
            except Exception:  # the next round must come, or no hang would ever be found
                logger.exception("the check for hung replicas failed inside the gateway")

    async def run_once(self) -> None:
        """Read the counters of silent replicas; end the attempts on those that hang."""
        replicas = {replica.name: replica for replica in self._source.replicas()}
        silent = {one.replica: one for one in self._silences() if one.replica in replicas}
        suspects = [one for one in silent.values() if 2 * one.silent_for_s > one.limit_s]
        names = {one.replica for one in suspects}
        self._baselines = {n: b for n, b in self._baselines.items() if n in names}
        self._active_at_s = {n: at_s for n, at_s in self._active_at_s.items() if n in silent}
        await asyncio.gather(*(self._check(one, replicas[one.replica]) for one in suspects))

    def _silences(self) -> list[Silence]:
        down = {replica.name for replica in self._source.replicas() if _is_down(replica)}
        return silences(self._traffic.progress_reports(), self._limits, self._active_at_s, down)

    async def _check(self, silence: Silence, replica: Replica) -> None:
        name, baseline = silence.replica, self._baselines.get(silence.replica)
        is_first = baseline is None or baseline.since_s != silence.since_s
        if not (is_first or silence.is_too_long):
            return
        try:
            activity = await self._read_activity(replica)
        except ReplicaProbeNotSent:
            return  # the gateway's own fault; the next round tries again
        still = {one.replica: one for one in self._silences()}.get(name)
        if still is None or still.since_s != silence.since_s:
            return  # bytes came during the reading
        before = None if is_first or baseline is None else baseline.activity
        if before is None:
            self._baselines[name] = _Baseline(silence.since_s, activity)
            if activity is not None or not still.is_too_long:
                return
        if is_hung(still, before, activity, is_down=_is_down(replica)):
            logger.error(
                "replica %s sent no data for %.1f s%s; aborting its requests",
                name,
                still.silent_for_s,
                "" if activity is None else ", and its counters do not move",
            )
            del self._baselines[name]
            self._traffic.cut_hung(name)
            self._on_hung(name)
        else:
            self._active_at_s[name] = time.monotonic()


async def read_activity(replica: Replica) -> Activity | None:
    """The figures of an engine, read from its metrics; see `ReadActivity`."""
    async with Prober(replica.address, DIALECTS[replica.dialect], replica.key) as prober:
        try:
            reading = await prober.fetch_load(HUNG_CONFIRM_TIMEOUT_S)
        except ReplicaProbeNotSent:
            raise
        except ReplicaProbeFailed:
            return None
    return None if reading.load is None else reading.load.activity


def is_hung(
    silence: Silence, before: Activity | None, now: Activity | None, *, is_down: bool
) -> bool:
    """The verdict on a silence that is too long, from two readings of the engine's counters.

    Counters that moved show that the engine works. Counters that stand still confirm the silence.
    Without counters, or when they cannot be read any more, the silence of streams decides. That of
    whole answers shows nothing, unless the replica `is_down` and answers no health check either.
    """
    if now is None:
        return silence.has_streams or is_down
    return now == before


def _is_down(replica: Replica) -> bool:
    """A server without metrics may compute an answer in the thread of its health check."""
    return replica.state == "down" and DIALECTS[replica.dialect].metrics_path is not None
