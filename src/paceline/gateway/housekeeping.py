"""`Housekeeping`: what the data port does once a second, whether or not requests arrive.

It drops what is remembered of replicas that left or restarted, and returns the memory that many
requests have released.
"""

from __future__ import annotations

import asyncio
import logging

from paceline.gateway.http.byte_budget import ByteBudget
from paceline.gateway.process import return_freed_memory
from paceline.gateway.proxy.lease import LeaseTable
from paceline.gateway.proxy.upstream import Upstreams
from paceline.gateway.replicas import ReplicaSource, ReplicaState
from paceline.gateway.time_limits import HOUSEKEEPING_PERIOD_S

_RETURNED_BYTES = 16 * 1024 * 1024
"""Chosen empirically: returning memory takes milliseconds, so it follows only a marked decline."""

logger = logging.getLogger(__name__)


class Housekeeping:
    """Call `run`, which ends when it is cancelled; `run_once` is one round."""

    def __init__(
        self,
        source: ReplicaSource,
        leases: LeaseTable,
        upstreams: Upstreams,
        bytes_held: ByteBudget,
    ) -> None:
        self._source = source
        self._leases = leases
        self._upstreams = upstreams
        self._bytes_held = bytes_held
        self._states: dict[str, ReplicaState] = {}

    async def run(self) -> None:
        """Run a round every second until cancelled. A round that fails does not end the others."""
        while True:
            await asyncio.sleep(HOUSEKEEPING_PERIOD_S)
            try:
                self.run_once()
                known = {replica.address for replica in self._source.replicas()}
                await self._upstreams.keep_only(known | self._leases.addresses())
            except Exception:
                logger.exception("a round of housekeeping failed; the next one follows")

    def run_once(self) -> None:
        """Reset a replica that is ready again; forget those gone; return memory."""
        if self._bytes_held.take_decline(_RETURNED_BYTES):
            return_freed_memory()
        states = {replica.name: replica.state for replica in self._source.replicas()}
        for name, state in states.items():
            if state == "ready" and self._states.get(name, state) in ("down", "starting"):
                self._leases.breakers.reset(name)
        if self._states.keys() - states.keys():
            self._leases.forget(states)
        self._states = states
