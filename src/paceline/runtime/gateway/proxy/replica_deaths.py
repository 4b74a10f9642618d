"""`ReplicaDeaths`: how many replicas have ended or hung under one request.

A request may be the cause, and would end all others too. A replica may say something before it
ends (an error event, `abort`, a 503) and exit a moment later, so those that failed the request are
looked at again before another one gets it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.proxy.attempt_end import AttemptEnd
from paceline.runtime.gateway.proxy.lease import Lease
from paceline.runtime.gateway.proxy.services import GatewayServices
from paceline.runtime.gateway.proxy.upstream import Liveness
from paceline.runtime.gateway.replicas import Replica, named, was_stopped
from paceline.runtime.gateway.time_limits import (
    DYING_S,
    ENDED_CHECK_S,
    ENDED_RECHECK_S,
    SILENT_CHECK_S,
)

_MAY_BE_DYING = (
    Outcome.BROKEN, Outcome.ENGINE_ERROR, Outcome.TIMED_OUT, Outcome.INTERNAL_ERROR,
)  # fmt: skip
"""After these the replica's health is asked at once."""
_HAD_THE_REQUEST = (*_MAY_BE_DYING, Outcome.ENGINE_REFUSED, Outcome.MISDIRECTED)
"""A replica may end after any answer."""


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A replica that failed the request and lived then."""

    replica: Replica
    dying_until_s: float
    """It may be about to end until then."""


class ReplicaDeaths:
    """The deaths under one request. A replica that was drained, removed or restarted on purpose
    does not count; one whose health check is not answered in time does."""

    __slots__ = ("_services", "_suspects", "num")

    def __init__(self, services: GatewayServices) -> None:
        self._services = services
        self._suspects: dict[str, _Suspect] = {}
        self.num = 0
        """Attempts whose replica ended or hung."""

    async def note_failed(self, lease: Lease, end: AttemptEnd) -> AttemptEnd:
        """Count a failed attempt, whose lease is still open; its end, marked if the replica has
        ended or was found hung."""
        replica = lease.replica
        if lease.is_cut or end.is_death:
            self._count(replica.name)
            return replace(end, is_death=True)
        if end.outcome is Outcome.TIMED_OUT and lease.has_answered:
            self._count(replica.name)  # other attempts there may live, so it is no end of it
        elif end.outcome in _HAD_THE_REQUEST:
            may_be_dying = end.outcome in _MAY_BE_DYING
            until_s = _now_s() + (DYING_S if may_be_dying else 0)
            self._suspects[replica.name] = _Suspect(replica, until_s)
            if may_be_dying and await self._look_at(replica, ENDED_CHECK_S) is Liveness.ENDED:
                return replace(end, is_death=True)
        return end

    async def look_back(self) -> bool:
        """Look at the replicas that failed the request, unless all of them together are too few to
        give it up; for up to a second while those that failed just now decide that.

        False when nothing was looked at. Call it before another replica gets the request.
        """
        max_deaths = self._services.settings.failures.max_replica_deaths
        if self.num + len(self._suspects) < max_deaths:
            return False
        pause_s = ENDED_RECHECK_S
        while True:
            suspects = list(self._suspects.values())
            looks = (self._look_at(one.replica, SILENT_CHECK_S, is_last=True) for one in suspects)
            await asyncio.gather(*looks)
            now_s = _now_s()
            left_s = [one.dying_until_s - now_s for one in self._suspects.values()]
            num_dying = sum(one > 0 for one in left_s)
            if self.num >= max_deaths or self.num + num_dying < max_deaths:
                return True
            await asyncio.sleep(min(pause_s, max(left_s)))
            pause_s *= 2

    async def _look_at(
        self, replica: Replica, within_s: float, *, is_last: bool = False
    ) -> Liveness:
        """One that is silent counts at the last look only: until then, it may merely be slow."""
        services, name = self._services, replica.name
        now = named(services.source.replicas(), name)
        if now is None or was_stopped(replica, now):
            self._suspects.pop(name, None)
            return Liveness.LIVES
        if now.num_unplanned_restarts != replica.num_unplanned_restarts:
            self._count(name)
            return Liveness.ENDED
        liveness = await services.upstreams.liveness(replica, within_s)
        if liveness is Liveness.ENDED or (liveness is Liveness.SILENT and is_last):
            self._count(name)
        if liveness is Liveness.ENDED:
            services.leases.found_ended(name)
        return liveness

    def _count(self, name: str) -> None:
        self._suspects.pop(name, None)
        self.num += 1


def _now_s() -> float:
    return asyncio.get_running_loop().time()
