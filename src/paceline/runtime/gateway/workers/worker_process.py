"""One worker process, seen from the parent: start, messages, health check, end.

Covers one process from its start to its exit. `pool` decides what follows its exit.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from paceline.runtime.gateway.settings import FleetSettings, GatewaySettings
from paceline.runtime.gateway.signals import ReplicaSignals
from paceline.runtime.gateway.time_limits import WORKER_EXIT_TIMEOUT_S, WORKER_START_TIMEOUT_S
from paceline.runtime.gateway.workers.channel import Channel, ChannelBroken
from paceline.runtime.gateway.workers.messages import (
    CutHung,
    Discourage,
    MetricsReport,
    MetricsRequest,
    PeerState,
    ReplicaList,
    Setup,
    SignalUpdate,
    SlotAllocation,
    Stop,
    ToParent,
    ToWorker,
    WorkerProgress,
    WorkerReady,
    WorkerReport,
    WorkerUnfit,
)
from paceline.runtime.gateway.workers.worker_totals import WorkerTotals

logger = logging.getLogger(__name__)

_PROGRAM = Path(__file__).with_name("__main__.py")
_METRICS_PERIOD_S = 5.0
"""Time between two requests for a worker's metrics: what it counts after the last one is lost when
it dies. Chosen empirically."""
_MAX_UNANSWERED = 6
"""A worker that leaves this many metrics requests unanswered, over half a minute, hangs. Chosen
empirically."""


class WorkerFailed(Exception):
    """A worker cannot serve; the message says why, as far as that is known."""


class WorkerProcess:
    """A running worker. It has its own session, so that Ctrl-C reaches only the parent, and exits
    by itself when the parent ends."""

    def __init__(
        self,
        worker_index: int,
        process: Process,
        channel: Channel[ToParent, ToWorker],
        totals: WorkerTotals,
    ) -> None:
        self.worker_index = worker_index
        self.pid = process.pid
        self.has_served = False
        self.unfit_reason: str | None = None
        """Why the worker cannot serve, as it reported or as the parent found."""
        self._process = process
        self._channel = channel
        self._totals = totals
        self._metrics_received = asyncio.Event()
        self._is_channel_closed = False
        self._num_unanswered = 0
        self._started_at_s = self._metrics_requested_at_s = time.monotonic()
        self._replicas_version = 0
        """Of the last `ReplicaList` sent."""
        self._peer_state = PeerState()
        """The last one sent."""
        self._signals: dict[str, ReplicaSignals] = {}
        """The last ones sent."""

    @classmethod
    async def start(
        cls,
        worker_index: int,
        settings: GatewaySettings,
        listener: socket.socket,
        totals: WorkerTotals,
        gateway_id: str = "",
    ) -> WorkerProcess:
        """Start a process that serves on this socket. May raise OSError."""
        own_end, worker_end = socket.socketpair()
        with worker_end:
            # Before the process starts: from then on nothing is awaited until it has an owner.
            channel: Channel[ToParent, ToWorker] = await Channel.over(own_end, ToParent)
            try:
                process = await asyncio.create_subprocess_exec(
                    # -P: never import from the working folder
                    *(sys.executable, "-P", str(_PROGRAM)),
                    *(str(worker_end.fileno()), str(listener.fileno())),
                    pass_fds=(worker_end.fileno(), listener.fileno()),
                    stdin=DEVNULL,
                    stdout=DEVNULL,  # programs read the parent's stdout; logs go to the same stderr
                    start_new_session=True,
                )
            except BaseException:
                channel.close()
                raise
        # The worker gets its replicas from `ReplicaList`, not from the configured entries.
        own = replace(settings, fleet=FleetSettings())
        channel.send(Setup(own, worker_index, gateway_id))
        return cls(worker_index, process, channel, totals)

    async def run(self) -> int:
        """Process the worker's messages until it exits; returns its exit code, negative for a
        signal. When cancelled, it kills the worker and returns once that one has ended."""
        try:
            await self._listen()
            async with asyncio.timeout(WORKER_EXIT_TIMEOUT_S):
                await self._process.wait()
        except ChannelBroken as error:
            logger.error("gateway worker %d sent an invalid message: %s", self.worker_index, error)
        except TimeoutError:
            logger.error(
                "gateway worker %d did not exit within %g s",
                self.worker_index,
                WORKER_EXIT_TIMEOUT_S,
            )
        finally:
            self.kill()
            self._channel.close()
            code = await self._process.wait()
        return code

    def check(self) -> None:
        """Request its metrics when they are due; kill it if it hangs. Call this often."""
        now_s = time.monotonic()
        if not self.has_served:  # while it imports its modules, it reads no messages
            if now_s - self._started_at_s > WORKER_START_TIMEOUT_S and self.unfit_reason is None:
                self.unfit_reason = f"it did not serve within {WORKER_START_TIMEOUT_S:g} s"
                self.kill()
        elif now_s - self._metrics_requested_at_s > _METRICS_PERIOD_S:
            self._metrics_requested_at_s = now_s
            if self._num_unanswered == _MAX_UNANSWERED:
                logger.error("gateway worker %d hangs; killing it", self.worker_index)
                self.kill()
            self._num_unanswered += 1
            self._channel.send(MetricsRequest())

    def send_replicas(self, replicas: ReplicaList) -> None:
        """Send the replica list, unless it is unchanged or the worker has messages to read."""
        if replicas.version > self._replicas_version and not self._channel.is_backed_up:
            self._replicas_version = replicas.version
            self._channel.send(replicas)

    def send_signals(self, signals: Mapping[str, ReplicaSignals]) -> None:
        """Send the replicas' signals, under the same conditions."""
        if signals != self._signals and not self._channel.is_backed_up:
            self._signals = dict(signals)
            self._channel.send(SignalUpdate(self._signals))

    def send_peer_state(
        self, slots: dict[str, SlotAllocation], queue_lengths: dict[str, int]
    ) -> int | None:
        """Send the state of the peers, under the same conditions.

        Returns the version sent, or None if nothing was sent.
        """
        last = self._peer_state
        known = (last.slots, last.queue_lengths)
        has_changed = last.version == 0 or (slots, queue_lengths) != known
        if not has_changed or self._channel.is_backed_up:
            return None
        self._peer_state = PeerState(last.version + 1, slots, queue_lengths)
        self._channel.send(self._peer_state)
        return self._peer_state.version

    def cut_hung(self, replica_name: str) -> None:
        """Have it end its attempts on a replica that was found hung."""
        self._channel.send(CutHung(replica_name))

    def discourage(self, *, is_accepting: bool) -> None:
        """Have it serve on, but make its clients leave."""
        self._channel.send(Discourage(is_accepting))

    def stop(self, *, at_once: bool = False) -> None:
        """Have it accept no new connections, complete its requests, and exit."""
        self._channel.send(Stop(at_once))

    def kill(self) -> None:
        """Kill it if it still runs."""
        if self._process.returncode is None:
            self._process.kill()

    async def refresh_metrics(self) -> None:
        """Request its metrics and wait until they have come or the worker is gone."""
        if not self._is_channel_closed:
            self._metrics_received.clear()
            self._channel.send(MetricsRequest())
            await self._metrics_received.wait()

    async def _listen(self) -> None:
        try:
            while (message := await self._channel.receive()) is not None:
                match message:
                    case WorkerReport():
                        self._totals.set_report(self.worker_index, message)
                    case MetricsReport():
                        self._totals.set_metrics(self.worker_index, message)
                        self._num_unanswered = 0
                        self._metrics_received.set()
                    case WorkerProgress():
                        self._totals.set_progress(self.worker_index, message.report)
                    case WorkerReady():
                        self.has_served = True
                    case WorkerUnfit():
                        self.unfit_reason = message.reason
        finally:
            self._is_channel_closed = True
            self._metrics_received.set()  # the last metrics stay valid


def explain_exit(code: int) -> str:
    """An exit code in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"
