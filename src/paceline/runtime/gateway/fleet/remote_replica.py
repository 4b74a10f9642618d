"""One remote replica: polls it periodically and keeps its current state in memory.

A shell: `Prober` does the HTTP, `ReplicaHealth` decides the state. It never touches the counts of
client requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence

from paceline.runtime.gateway.fleet.dialects import DIALECTS
from paceline.runtime.gateway.fleet.health import ReplicaHealth
from paceline.runtime.gateway.fleet.identity import ListedModel, other_models
from paceline.runtime.gateway.fleet.prober import (
    Prober,
    ReplicaLeadsBack,
    ReplicaProbeFailed,
    ReplicaProbeNotSent,
    update_load,
)
from paceline.runtime.gateway.fleet.speculation import Speculation
from paceline.runtime.gateway.fleet.status import LoadReading, ReplicaStatus
from paceline.runtime.gateway.replicas import Replica, ReplicaState
from paceline.runtime.gateway.settings import FleetSettings, ReplicaEntry

logger = logging.getLogger(__name__)


class RemoteReplica:
    """One remote replica, polled while `run` runs."""

    def __init__(
        self,
        name: str,
        address: str,
        entry: ReplicaEntry,
        settings: FleetSettings,
        jitter: Callable[[float], float],
        *,
        quotes_errors: bool,
        gateway_id: str = "",
    ) -> None:
        """`jitter` varies a period, so that several gateways do not poll at the same moments.

        `quotes_errors` says whether operators may read what the replica answers to a probe.
        `gateway_id` is that of this gateway.
        """
        self._gateway_id = gateway_id
        self._quotes_errors = quotes_errors
        self.name = name
        self.address = address
        self.entry = entry
        self._settings = settings
        self._jitter = jitter
        self._model = entry.model
        self._max_model_len: int | None = None
        self._other_models: Mapping[str, int | None] = {}
        self._version: str | None = None
        self._health = ReplicaHealth()
        self._polled_at_s: float | None = None
        self.load = LoadReading()
        """The last reading."""
        self._load_due_at_s = 0.0
        self._is_draining = False
        self._is_leaving = False
        self.replica = self._describe()

    def set_draining(self, is_draining: bool) -> None:
        """Take the replica out of service or back in. Polling continues either way."""
        self._is_draining = is_draining
        self.replica = self._describe()

    def set_leaving(self, is_leaving: bool) -> None:
        """Mark the replica for removal once idle, or undo that; then it is warmed up again."""
        self._is_leaving = is_leaving
        self._health = self._health if is_leaving else ReplicaHealth()
        self.replica = self._describe()

    @property
    def is_leaving(self) -> bool:
        return self._is_leaving

    def status(self, is_entry_draining: bool) -> ReplicaStatus:
        """`is_entry_draining` says whether the DNS entry of this replica is drained."""
        is_draining = self._is_draining or is_entry_draining
        reason = self._health.reason
        if self._is_leaving:
            reason = "is removed once its requests have ended"
        elif is_draining and self._health.state == "ready":
            reason = "drained by an operator"
        return ReplicaStatus(
            replica=self.replica,
            origin="url" if self.entry.dns is None else "dns",
            entry=self.entry.label,
            reason=reason,
            is_draining=is_draining,
            is_leaving=self._is_leaving,
            polled_at_s=self._polled_at_s,
            load=self.load,
        )

    async def run(self) -> None:
        """Poll the replica until cancelled."""
        async with Prober(
            self.address,
            DIALECTS[self.entry.dialect],
            self.entry.key,
            quotes_errors=self._quotes_errors,
            gateway_id=self._gateway_id,
        ) as prober:
            while True:
                try:
                    await self._poll(prober)
                    await self._read_load(prober)
                except Exception:
                    # A bug in the gateway must not freeze the replica's last state.
                    logger.exception("replica %s: polling failed inside the gateway", self.name)
                    self._set_health(
                        self._health.poll_failed("internal error of the gateway; see its log", 1)
                    )
                await asyncio.sleep(self._jitter(self._settings.poll_period_s))

    async def _poll(self, prober: Prober) -> None:
        try:
            await prober.check_health(self._settings.poll_timeout_s)
            self._set_health(self._health.poll_answered())
            if self._health.needs_warm_up:
                await self._warm_up(prober)
                self._set_health(self._health.warm_up_succeeded())
                # Requests need not wait for it.
                self._version = await prober.fetch_version(self._settings.poll_timeout_s)
                self.replica = self._describe()
        except ReplicaProbeNotSent as failure:
            logger.warning("replica %s was not polled: %s", self.name, failure)
        except ReplicaLeadsBack as failure:
            self._set_health(self._health.poll_failed(str(failure), 1))
        except ReplicaProbeFailed as failure:
            self._load_due_at_s = 0.0  # it may have been restarted with another revision
            self._set_health(
                self._health.poll_failed(str(failure), self._settings.failures_before_down)
            )
        finally:
            self._polled_at_s = time.monotonic()

    async def _warm_up(self, prober: Prober) -> None:
        """Fetch the served model, then send a warm-up request. May raise `ReplicaProbeFailed`."""
        models = await prober.fetch_models(self._settings.poll_timeout_s)
        chosen = choose_model(models, self.entry.model)
        self._model, self._max_model_len = chosen.id, chosen.max_model_len
        self._other_models = self._others(models)
        if self._settings.warm_up:
            await prober.warm_up(chosen.id, self._settings.warm_up_timeout_s)
        await self._update_load(prober)  # what the replica can do is known before it is ready

    async def _read_load(self, prober: Prober) -> None:
        if self._health.state != "ready":
            known = self.load.speculation
            self.load = LoadReading(failure="the replica is not ready", speculation=known)
        elif time.monotonic() >= self._load_due_at_s:
            await self._update_load(prober)
            await self._update_other_models(prober)
            self.replica = self._describe()

    async def _update_other_models(self, prober: Prober) -> None:
        """vLLM loads and unloads adapters while it serves."""
        if self.entry.dialect == "vllm":
            with contextlib.suppress(ReplicaProbeFailed):
                self._other_models = self._others(
                    await prober.fetch_models(self._settings.poll_timeout_s)
                )

    def _others(self, models: Sequence[ListedModel]) -> Mapping[str, int | None]:
        """The further ids; none where the entry names the one that clients may use."""
        return other_models(models, self._model or "") if self.entry.model is None else {}

    async def _update_load(self, prober: Prober) -> None:
        self._load_due_at_s = time.monotonic() + self._jitter(self._settings.load_period_s)
        self.load = await update_load(prober, self.load, self._settings.poll_timeout_s)

    def _set_health(self, health: ReplicaHealth) -> None:
        if health.state != self._health.state:
            level = logging.WARNING if health.state == "down" else logging.INFO
            reason = f": {health.reason}" if health.reason else ""
            logger.log(level, "replica %s is %s%s", self.name, health.state, reason)
        self._health = health
        self.replica = self._describe()

    def _describe(self) -> Replica:
        return Replica(
            name=self.name,
            address=self.address,
            model=self._model or "",
            state=self._state(),
            max_model_len=self._max_model_len,
            other_models=self._other_models,
            dialect=self.entry.dialect,
            drafts=self._drafts(),
            honours_draft_caps=self._speculation.honours_draft_caps is True,
            serves_undrafted=self.entry.drafts is None and self._speculation.is_governed,
            revision=self._revision(),
            version=self._version,
            key=self.entry.key,
            max_in_flight=self.entry.max_in_flight or DIALECTS[self.entry.dialect].max_in_flight,
            max_tokens_in_flight=self.entry.max_tokens_in_flight,
        )

    @property
    def _speculation(self) -> Speculation:
        """What its metrics say; nothing unless it is a vLLM server."""
        return self.load.speculation if self.entry.dialect == "vllm" else Speculation()

    def _drafts(self) -> bool:
        """As configured, else as its metrics say."""
        configured = self.entry.drafts
        return self._speculation.drafts is True if configured is None else configured

    def _revision(self) -> str | None:
        """As configured, else as its metrics say."""
        if self.entry.revision is not None or self.entry.dialect != "vllm":
            return self.entry.revision
        return self.load.revision

    def _state(self) -> ReplicaState:
        if self._is_leaving or (self._is_draining and self._health.state == "ready"):
            return "draining"
        return self._health.state


def choose_model(models: Sequence[ListedModel], configured: str | None) -> ListedModel:
    """The first model id of the replica: the configured one, else the first that it lists.

    A configured model need not be listed: llama.cpp lists the path of its file and accepts any
    name. May raise `ReplicaProbeFailed`.
    """
    if configured is not None:
        return next((model for model in models if model.id == configured), ListedModel(configured))
    if not models:
        raise ReplicaProbeFailed("the replica lists no model; set `model` in its entry")
    return models[0]
