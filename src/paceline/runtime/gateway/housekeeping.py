"""`Housekeeping`: what the data port does once a second, whether or not requests arrive.

It drops what is remembered of replicas that left or restarted, and returns the memory that many
requests have released.
"""

from __future__ import annotations

import asyncio
import logging

from paceline.runtime.gateway.http.byte_budget import ByteBudget
from paceline.runtime.gateway.process import return_freed_memory
from paceline.runtime.gateway.proxy.lease import LeaseTable
from paceline.runtime.gateway.proxy.upstream import Upstreams
from paceline.runtime.gateway.replicas import ReplicaSource, ReplicaState
from paceline.runtime.gateway.time_limits import HOUSEKEEPING_PERIOD_S

_RETURN_ROUNDS = 10
_RETURNED_BYTES = 16 * 1024 * 1024
"""Chosen empirically: returning 0.5 GB pauses all streams for 40 ms, so it follows only a decline
by this much that has lasted for `_RETURN_ROUNDS`."""

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
        self._num_rounds = 0
        self._most_bytes = 0
        """Reserved at a time since memory was returned."""
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
        self._return_memory()
        states = {replica.name: replica.state for replica in self._source.replicas()}
        for name, state in states.items():
            if state == "ready" and self._states.get(name, state) in ("down", "starting"):
                self._leases.breakers.reset(name)
        if self._states.keys() - states.keys():
            self._leases.forget(states)
        self._states = states

    def _return_memory(self) -> None:
        """Return the memory of requests that ended, once there are far fewer for a while."""
        self._num_rounds += 1
        if self._num_rounds % _RETURN_ROUNDS:
            return
        most_bytes = self._bytes_held.take_most_bytes()
        if self._most_bytes - most_bytes >= _RETURNED_BYTES:
            return_freed_memory()
            self._most_bytes = most_bytes
        self._most_bytes = max(self._most_bytes, most_bytes)
