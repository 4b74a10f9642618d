"""What must be looked after once a second, whether or not requests come?

Replicas that hang are found and cut off; what is remembered of replicas follows their coming, going
and coming back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from paceline.gateway.proxy.lease import LeaseTable
from paceline.gateway.proxy.upstream import Upstreams
from paceline.gateway.replicas import ReplicaSource, ReplicaState

logger = logging.getLogger(__name__)

_PERIOD_S = 1.0


class Housekeeping:
    """`run` until cancelled; `look` is one round."""

    def __init__(
        self,
        source: ReplicaSource,
        ledger: LeaseTable,
        upstreams: Upstreams,
        on_hung: Callable[[str], None],
    ) -> None:
        self._source = source
        self._ledger = ledger
        self._upstreams = upstreams
        self._on_hung = on_hung
        self._states: dict[str, ReplicaState] = {}

    async def run(self) -> None:
        while True:
            await asyncio.sleep(_PERIOD_S)
            self.look()
            known = {replica.address for replica in self._source.replicas()}
            await self._upstreams.keep_only(known | self._ledger.addresses())

    def look(self) -> None:
        for name in self._ledger.cut_hung():
            logger.error("replica %s brings nothing; its attempts are ended", name)
            self._on_hung(name)
        states = {replica.name: replica.state for replica in self._source.replicas()}
        for name, state in states.items():
            if state == "ready" and self._states.get(name, state) in ("down", "starting"):
                self._ledger.breakers.reset(name)
        if self._states.keys() - states.keys():
            self._ledger.forget(states)
        self._states = states
