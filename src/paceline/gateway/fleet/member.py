"""How is one remote replica watched while it is in the fleet?

A shell: it asks, has `watch` decide, and keeps the replica as others see it in memory. It never
touches what requests count.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from paceline.gateway.fleet.dialects import DIALECTS
from paceline.gateway.fleet.prober import ListedModel, Prober, ReplicaProbeFailed
from paceline.gateway.fleet.status import LoadReading, ReplicaStatus
from paceline.gateway.fleet.watch import Watch
from paceline.gateway.replicas import Replica, ReplicaState
from paceline.gateway.settings import FleetSettings, ReplicaEntry

logger = logging.getLogger(__name__)


class Member:
    """One remote replica, polled while `run` runs."""

    def __init__(
        self,
        name: str,
        address: str,
        entry: ReplicaEntry,
        settings: FleetSettings,
        jitter: Callable[[float], float],
    ) -> None:
        """`jitter` spreads a period, so that many gateways do not ask in step."""
        self.name = name
        self.address = address
        self.entry = entry
        self._settings = settings
        self._jitter = jitter
        self._model = entry.model
        self._max_model_len: int | None = None
        self._watch = Watch()
        self._polled_at_s: float | None = None
        self._load = LoadReading()
        self._load_due_at_s = 0.0
        self._is_draining = False
        self._is_leaving = False
        self.replica = self._describe()

    def set_draining(self, is_draining: bool) -> None:
        """Take it out of service, or back in. It is watched all the while."""
        self._is_draining = is_draining
        self.replica = self._describe()

    def set_leaving(self, is_leaving: bool) -> None:
        """Say that it goes once it is idle. One that stays after all proves itself anew."""
        self._is_leaving = is_leaving
        self._watch = self._watch if is_leaving else Watch()
        self.replica = self._describe()

    @property
    def is_leaving(self) -> bool:
        return self._is_leaving

    def status(self, is_draining_by_name: bool) -> ReplicaStatus:
        is_draining = self._is_draining or is_draining_by_name
        reason = self._watch.reason
        if self._is_leaving:
            reason = "is removed once its requests have ended"
        elif is_draining and self._watch.state == "ready":
            reason = "drained by an operator"
        return ReplicaStatus(
            replica=self.replica,
            origin="url" if self.entry.dns is None else "dns",
            entry=self.entry.label,
            reason=reason,
            is_draining=is_draining,
            is_leaving=self._is_leaving,
            polled_at_s=self._polled_at_s,
            load=self._load,
        )

    async def run(self) -> None:
        """Watch it until cancelled."""
        async with Prober(self.address, DIALECTS[self.entry.dialect], self.entry.key) as prober:
            while True:
                try:
                    await self._poll(prober)
                    await self._read_load(prober)
                except Exception:
                    # A fault of ours must not freeze what is known of the replica.
                    logger.exception("replica %s: fault in its watch", self.name)
                    self._to(self._watch.failed("fault in the gateway; its log says more", 1))
                await asyncio.sleep(self._jitter(self._settings.poll_period_s))

    async def _poll(self, prober: Prober) -> None:
        try:
            await prober.check_health(self._settings.poll_timeout_s)
            self._to(self._watch.answered())
            if self._watch.must_warm_up:
                await self._prove(prober)
                self._to(self._watch.warmed_up())
        except ReplicaProbeFailed as failure:
            self._to(self._watch.failed(str(failure), self._settings.failures_before_down))
        finally:
            self._polled_at_s = time.monotonic()

    async def _prove(self, prober: Prober) -> None:
        """Learn what it serves, and see it serve. May raise `ReplicaProbeFailed`."""
        models = await prober.fetch_models(self._settings.poll_timeout_s)
        chosen = choose_model(models, self.entry.model)
        self._model, self._max_model_len = chosen.id, chosen.max_model_len
        if self._settings.warm_up:
            await prober.warm_up(chosen.id, self._settings.warm_up_timeout_s)

    async def _read_load(self, prober: Prober) -> None:
        now_s = time.monotonic()
        if self._watch.state != "ready":
            self._load = LoadReading(failure="the replica is not ready")
        elif now_s >= self._load_due_at_s:
            self._load_due_at_s = now_s + self._jitter(self._settings.load_period_s)
            self._load = await read_load_of(prober, self._load, self._settings.poll_timeout_s)

    def _to(self, watch: Watch) -> None:
        if watch.state != self._watch.state:
            level = logging.WARNING if watch.state == "down" else logging.INFO
            logger.log(
                level, "replica %s is %s: %s", self.name, watch.state, watch.reason or "well"
            )
        self._watch = watch
        self.replica = self._describe()

    def _describe(self) -> Replica:
        return Replica(
            name=self.name,
            address=self.address,
            model=self._model or "",
            state=self._state(),
            max_model_len=self._max_model_len,
            dialect=self.entry.dialect,
            drafts=self.entry.drafts,
            key=self.entry.key,
            max_in_flight=self.entry.max_in_flight,
        )

    def _state(self) -> ReplicaState:
        if self._is_leaving or (self._is_draining and self._watch.state == "ready"):
            return "draining"
        return self._watch.state


def choose_model(models: Sequence[ListedModel], wanted: str | None) -> ListedModel:
    """The model that clients name: the operator's word, else the first that the replica lists.

    A model that the operator names need not be listed: llama.cpp lists the path of its file and
    takes any name. May raise `ReplicaProbeFailed`.
    """
    if wanted is not None:
        return next((model for model in models if model.id == wanted), ListedModel(wanted))
    if not models:
        raise ReplicaProbeFailed("it lists no model; say which with `model`")
    return models[0]


async def read_load_of(prober: Prober, before: LoadReading, timeout_s: float) -> LoadReading:
    """A new reading, or the one before with the reason why there is none. Does not raise."""
    try:
        load = await prober.fetch_load(timeout_s)
    except ReplicaProbeFailed as failure:
        return before.failed(str(failure))
    return LoadReading(load, time.monotonic(), "")
