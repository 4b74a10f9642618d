"""The engines of this machine as replicas, with operator draining and load added.

Their supervisor starts them and checks their health; this module only reads their state from its
`ReplicaSource` and fetches their metrics.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from paceline.runtime.gateway.fleet.dialects import DIALECTS
from paceline.runtime.gateway.fleet.identity import other_models
from paceline.runtime.gateway.fleet.prober import Prober, ReplicaProbeFailed, update_load
from paceline.runtime.gateway.fleet.status import LoadReading, ReplicaStatus
from paceline.runtime.gateway.replicas import Replica, ReplicaSource
from paceline.runtime.gateway.settings import FleetSettings


class LocalEngines:
    """A `ReplicaSource` of the engines of this machine. `run` keeps their load up to date."""

    def __init__(
        self, source: ReplicaSource, settings: FleetSettings, jitter: Callable[[float], float]
    ) -> None:
        """`jitter` varies a period."""
        self._source = source
        self._settings = settings
        self._jitter = jitter
        self._drained_names: set[str] = set()
        """By an operator."""
        self._restarting_names: set[str] = set()
        """Out of service for a restart, whatever the operator says."""
        self._other_models: dict[str, Mapping[str, int | None]] = {}
        """By engine: the adapters that vLLM's arguments name, or that were loaded since."""
        self.loads: dict[str, LoadReading] = {}
        """The last readings by engine."""

    def replicas(self) -> Sequence[Replica]:
        return [self._as_served(replica) for replica in self._source.replicas()]

    def _as_served(self, replica: Replica) -> Replica:
        changes: dict[str, Any] = {}
        if replica.state == "ready" and (
            replica.name in self._drained_names or replica.name in self._restarting_names
        ):
            changes["state"] = "draining"
        if others := self._other_models.get(replica.name):
            changes["other_models"] = others
        return replace(replica, **changes) if changes else replica

    def statuses(self) -> Sequence[ReplicaStatus]:
        return [
            ReplicaStatus(
                replica=replica,
                origin="local",
                entry=None,
                reason=self._reason(replica),
                is_draining=replica.name in self._drained_names,
                is_leaving=False,
                polled_at_s=None,
                load=self.loads.get(replica.name, LoadReading()),
            )
            for replica in self.replicas()
        ]

    def _reason(self, replica: Replica) -> str:
        if replica.state != "draining":
            return replica.reason
        is_restarting = replica.name in self._restarting_names
        return "restarts after its requests" if is_restarting else "drained by an operator"

    def has(self, name: str) -> bool:
        return any(replica.name == name for replica in self._source.replicas())

    def set_draining(self, name: str, is_draining: bool) -> None:
        """Drain an engine or return it to service. Restarts of the engine do not change this."""
        if is_draining:
            self._drained_names.add(name)
        else:
            self._drained_names.discard(name)

    def set_restarting(self, name: str, is_restarting: bool) -> None:
        """Take an engine out of service for a restart, or end that. A drain by an operator is
        independent of it."""
        if is_restarting:
            self._restarting_names.add(name)
        else:
            self._restarting_names.discard(name)

    async def run(self) -> None:
        """Read the load of all ready engines periodically, until cancelled."""
        while True:
            serving = [r for r in self._source.replicas() if r.state == "ready"]
            readings = await asyncio.gather(*(self._read_load(replica) for replica in serving))
            self.loads = {
                replica.name: reading for replica, reading in zip(serving, readings, strict=True)
            }
            await asyncio.sleep(self._jitter(self._settings.load_period_s))

    async def _read_load(self, replica: Replica) -> LoadReading:
        previous = self.loads.get(replica.name, LoadReading())
        async with Prober(replica.address, DIALECTS[replica.dialect], replica.key) as prober:
            with contextlib.suppress(ReplicaProbeFailed):
                models = await prober.fetch_models(self._settings.poll_timeout_s)
                self._other_models[replica.name] = other_models(models, replica.model)
            return await update_load(prober, previous, self._settings.poll_timeout_s)
