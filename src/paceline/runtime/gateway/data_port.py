"""`DataPort`: the data port as one process serves it, and everything that its requests share.

`peers` are the other processes on the same port, if there are any.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import Any, Protocol

from paceline.runtime.gateway.admission import AdmissionQueues
from paceline.runtime.gateway.api.data_app import DataApp
from paceline.runtime.gateway.capture.prompt_capture import PromptCapture
from paceline.runtime.gateway.hops import new_gateway_id, refusing_loops
from paceline.runtime.gateway.housekeeping import Housekeeping
from paceline.runtime.gateway.http.byte_budget import REQUEST_BYTES, ByteBudget
from paceline.runtime.gateway.http.decoding_turns import DecodingTurns
from paceline.runtime.gateway.http.listening import Listening, serving
from paceline.runtime.gateway.keys.access import DataAccess
from paceline.runtime.gateway.metrics.metrics import GatewayMetrics
from paceline.runtime.gateway.metrics.samples import FamilyOfSamples
from paceline.runtime.gateway.own_limits import descriptor_limit, max_data_connections
from paceline.runtime.gateway.peers import PeerWorkers
from paceline.runtime.gateway.process import return_large_blocks
from paceline.runtime.gateway.proxy.lease import Lease, LeaseTable
from paceline.runtime.gateway.proxy.retry_budget import RetryBudget
from paceline.runtime.gateway.proxy.second_opinions import SecondOpinions
from paceline.runtime.gateway.proxy.services import GatewayServices
from paceline.runtime.gateway.proxy.upstream import Upstreams
from paceline.runtime.gateway.replicas import ReplicaSource
from paceline.runtime.gateway.routing.breaker import Breakers
from paceline.runtime.gateway.routing.replica_slots import ReplicaSlots
from paceline.runtime.gateway.routing.router import Router
from paceline.runtime.gateway.routing.stream_progress import ProgressReport, ProgressWatch
from paceline.runtime.gateway.settings import GatewaySettings
from paceline.runtime.gateway.signals import SignalSource

_LEAST_OF_TENANT_BYTES = 4 * REQUEST_BYTES


class LiveReplicas(ReplicaSource, SignalSource, Protocol):
    """The replicas: what they are, and how they do."""


class DataPort:
    """The data port, or one process's part of it."""

    def __init__(
        self,
        settings: GatewaySettings,
        metrics: GatewayMetrics,
        peers: PeerWorkers | None = None,
        gateway_id: str = "",
    ) -> None:
        """`gateway_id` is that of the gateway, shared by its processes; one of its own without."""
        self._gateway_id = gateway_id or new_gateway_id()
        self._settings = settings
        self._metrics = metrics
        self._peers = peers
        self._breakers = Breakers(settings.failures)
        self.traffic = LeaseTable(self._breakers, ProgressWatch())
        """The open leases of this process, which are also its `Traffic`."""
        self.admissions: AdmissionQueues[Lease] | None = None
        """The queues of all models; None before it serves."""
        self._listening: Listening | None = None
        self._app: DataApp | None = None

    async def worker_samples(self, within_s: float = 0.0) -> Sequence[FamilyOfSamples]:
        """The metrics of worker processes: none, because this process serves alone."""
        return ()

    def progress_reports(self) -> Sequence[ProgressReport]:
        """The progress of the open attempts: of this process alone."""
        return (self.traffic.progress(),)

    def cut_hung(self, replica_name: str) -> None:
        """End all attempts on a replica that was found hung, and open its breaker."""
        self.traffic.cut_hung(replica_name)

    def discourage(self, *, is_accepting: bool = True) -> None:
        """Serve on, with `/ready` at 503 and `Connection: close` on every answer.

        Without `is_accepting`, another process accepts the new connections from here on.
        """
        if self._listening is not None and self._app is not None:
            self._app.probes.is_stopping = True
            self._listening.discourage(is_accepting=is_accepting)

    def cut(self) -> None:
        """End requests in flight without a drain, now or when it stops."""
        if self._listening is not None:
            self._listening.cut()

    @contextlib.asynccontextmanager
    async def serving(
        self, source: LiveReplicas, listener: socket.socket
    ) -> AsyncIterator[asyncio.Task[None]]:
        """Serve until the block ends; then drain, at most `drain_timeout_s`.

        The task ends by itself only when the server fails.
        """
        settings = self._settings
        return_large_blocks()
        async with Upstreams(settings) as upstreams, self._capturing() as capture:
            services = self._services(source, upstreams, capture)
            self.admissions = services.admissions
            self._app = DataApp(services)
            housekeeping = Housekeeping(source, self.traffic, upstreams, services.bytes_held)
            async with (
                owned_task(housekeeping.run()),
                serving(
                    refusing_loops(self._app, self._gateway_id),
                    listener,
                    settings,
                    drain_s=settings.drain_timeout_s,
                    max_connections=max_data_connections(settings, descriptor_limit()),
                ) as self._listening,
            ):
                yield self._listening.task
                self._app.probes.is_stopping = True

    @contextlib.asynccontextmanager
    async def _capturing(self) -> AsyncIterator[PromptCapture | None]:
        """The capture of prompts, closed at the end; None where it is off."""
        settings = self._settings
        if settings.capture.folder is None:
            yield None
            return
        capture = PromptCapture(
            settings.capture, self._metrics.captured, num_processes=settings.workers
        )
        try:
            yield capture
        finally:
            await asyncio.to_thread(capture.close)

    def _services(
        self,
        source: LiveReplicas,
        upstreams: Upstreams,
        capture: PromptCapture | None = None,
    ) -> GatewayServices:
        settings, failures = self._settings, self._settings.failures
        router = Router(
            source, self.traffic, self._breakers, settings.admission, self._peers, source
        )

        def slots_of(model: str) -> ReplicaSlots[Lease]:
            return ReplicaSlots(model, router, self.traffic)

        return GatewayServices(
            settings=settings,
            source=source,
            access=DataAccess(settings),
            counting_turns=DecodingTurns(),
            decoding_turns=DecodingTurns(),
            bytes_held=self._byte_budget(),
            admissions=AdmissionQueues(settings.admission, slots_of, self._metrics, self._peers),
            router=router,
            leases=self.traffic,
            upstreams=upstreams,
            retries=RetryBudget(failures.retry_fraction, failures.retry_reserve),
            continuations=RetryBudget(
                failures.continuation_fraction, failures.continuation_reserve
            ),
            opinions=SecondOpinions(),
            metrics=self._metrics,
            gateway_id=self._gateway_id,
            capture=capture,
        )

    def _byte_budget(self) -> ByteBudget:
        """This process's part of the budget, and a tenant's part of that: some small requests at
        least."""
        settings = self._settings
        of_process = settings.max_buffered_bytes // settings.workers
        of_tenant = int(settings.max_tenant_buffered_fraction * of_process)
        of_tenant = max(of_tenant, min(_LEAST_OF_TENANT_BYTES, of_process))
        has_tenants = settings.keys.file is not None
        return ByteBudget(
            of_process,
            of_tenant if has_tenants else None,
            settings.retry_after_s,
            self._metrics.buffered_bytes_changed,
        )


@contextlib.asynccontextmanager
async def owned_task(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """A task that ends with the block."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
