"""Kill or stop processes of the busier engine, and wait until it serves again."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from polling import until

from chaos.engines import Victim, signal_engine
from chaos.gateway_process import GatewayProcess

DOWN_WITHIN_S = 90.0
"""A stopped engine with a single stream counts as hung after 30 s without data."""
READY_WITHIN_S = 400.0
"""A start takes 25 s on two idle cores; four times that was observed on busy ones."""


@dataclass
class EngineFault:
    """A signal to some processes of one engine. The field names are keys of the results."""

    signal: str
    """SIGKILL, or SIGSTOP: the processes hang until the gateway restarts the engine."""
    victim: Victim
    replica: str = ""
    pids: tuple[int, ...] = ()
    num_in_flight: int = 0
    """Requests on the replica just before."""
    down_after_s: float | None = None
    """Time until the gateway stopped sending requests to the replica."""
    ready_after_s: float | None = None

    @property
    def number(self) -> signal.Signals:
        return signal.Signals[self.signal]


async def wait_all_ready(gateway: GatewayProcess) -> None:
    """Wait until every engine serves. Raises `TimeoutError` after `READY_WITHIN_S`."""
    await _wait_states(gateway, lambda ready: all(ready.values()), READY_WITHIN_S)


async def inject(gateway: GatewayProcess, fault: EngineFault) -> None:
    """Send the signal to the engine with the most requests; returns when the gateway noticed."""
    states = await asyncio.to_thread(gateway.replicas)
    busiest = max(states, key=lambda replica: int(replica["in_flight"]))
    fault.replica, fault.num_in_flight = busiest["name"], busiest["in_flight"]
    start_s = time.monotonic()
    fault.pids = tuple(signal_engine(gateway.pid, fault.replica, fault.victim, fault.number))
    assert fault.pids, f"no process of {fault.replica} was found"
    await _wait_states(gateway, lambda ready: not ready[fault.replica], DOWN_WITHIN_S)
    fault.down_after_s = time.monotonic() - start_s


async def _wait_states(
    gateway: GatewayProcess, condition: Callable[[dict[str, bool]], bool], within_s: float
) -> None:
    """Wait until this holds for the replicas, which are given as name to whether it is ready."""

    async def holds() -> bool:
        states = await asyncio.to_thread(gateway.replicas)
        return condition({one["name"]: one["state"] == "ready" for one in states})

    await until(holds, within_s)
