"""`ReplicaChooser`: the replicas of one request after its first attempt.

Admission chooses the first one, where slots are free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from paceline.runtime.gateway.http.response import ClientResponse
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.requests.plan import RequestPlan
from paceline.runtime.gateway.routing.breaker import OpenBreakers
from paceline.runtime.gateway.routing.router import Router
from paceline.runtime.gateway.settings import GatewaySettings
from paceline.runtime.gateway.time_limits import (
    KEEP_ALIVE_S,
    MAX_REPLICA_RECHECK_S,
    REPLICA_RECHECK_S,
)

_RECHECK_FACTOR = 1.3
_KEEP_ALIVE = b": waiting for a replica\n\n"


class ReplicaChooser:
    """Chooses the replicas of one request after its first attempt.

    When all breakers are open, an attempt goes to a replica that at least accepts connections:
    requests of others may have opened the breakers. One that has failed this request already is
    taken only if its breaker admits requests, or after the time for which a breaker first stays
    open. A stream that the client has begun to read is continued only on a replica that can
    continue it.
    """

    __slots__ = (
        "_began_on", "_failed", "_plan", "_recheck_s", "_rejected", "_reply", "_router",
        "_settings", "waited_s",
    )  # fmt: skip

    def __init__(
        self,
        router: Router,
        settings: GatewaySettings,
        plan: RequestPlan,
        reply: ClientResponse,
    ) -> None:
        self._router = router
        self._settings = settings.failures
        self._plan = plan
        self._reply = reply
        self._failed: set[str] = set()
        """Names of the replicas that failed this request since it last added tokens."""
        self._rejected: set[str] = set()
        """Names of those that would fail it in the same way again."""
        self._began_on: Replica | None = None
        """The replica that began the stream; None until the client has received part of it."""
        self._recheck_s = REPLICA_RECHECK_S
        """It grows over all waits: attempts that cannot be sent end at once."""
        self.waited_s = 0.0
        """How long the request has waited for a replica, over all its waits."""

    def note_failure(
        self, replica: Replica, *, has_added_tokens: bool = False, is_rejection: bool = False
    ) -> None:
        """An attempt on this replica failed.

        When it had added tokens to the stream, the replicas that failed earlier are tried again: a
        long stream meets several failures, and a fleet has few replicas. One that rejected the
        request gets it no more.
        """
        if has_added_tokens:
            self._failed.clear()
        self._failed.add(replica.name)
        if is_rejection:
            self._rejected.add(replica.name)
        if self._began_on is None and self._reply.delivered.has_data:
            self._began_on = replica

    def choose(self) -> Replica | None:
        """The best replica that has not failed this request since it last added tokens; None when
        there is none now."""
        return self._choose(self._failed | self._rejected, OpenBreakers.ACCEPTING)

    def choose_failed(self) -> Replica | None:
        """The best replica whose breaker admits requests and which has not rejected this one; None
        when there is none now."""
        return self._choose(self._rejected, OpenBreakers.NONE)

    async def wait(self) -> Replica | None:
        """Wait until some replica can take the request, one that failed it included.

        None when none could within `failures.replica_wait_s`, counted over all waits. A client
        whose stream has begun receives comments meanwhile.
        """
        loop = asyncio.get_running_loop()
        commented_at_s = loop.time()
        while self.waited_s <= self._settings.replica_wait_s:
            began_at_s = loop.time()
            await asyncio.sleep(self._recheck_s)
            self.waited_s += loop.time() - began_at_s
            self._recheck_s = min(self._recheck_s * _RECHECK_FACTOR, MAX_REPLICA_RECHECK_S)
            if self._reply.has_begun and loop.time() - commented_at_s > KEEP_ALIVE_S:
                commented_at_s = loop.time()
                await self._reply.comment(_KEEP_ALIVE)
            replica = self.choose() or self.choose_failed()
            if replica is None and self.waited_s >= self._settings.open_s:
                replica = self._choose(self._rejected, OpenBreakers.ACCEPTING)
            if replica is not None:
                return replica
        return None

    def _choose(self, avoid: Collection[str], otherwise: OpenBreakers) -> Replica | None:
        return self._router.choose(
            self._plan.model,
            self._plan.needs,
            avoid,
            otherwise=otherwise,
            continues_from=self._began_on,
        )
