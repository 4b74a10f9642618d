"""Kill or stop replicas drawn at random, again and again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from polling import until

from chaos.fleet import Fleet
from paceline.mock_vllm import SpawnedMockVllm

Inject = Callable[[SpawnedMockVllm], Awaitable[None]]

_PAUSE_S = (0.2, 0.6)
_LIFE_S = 1.4
"""Least time between two faults in a half of the fleet, however fast the machine starts replicas:
with shorter lives, streams meet the limits of continuation by chance."""
_STOPPED_S = 2.0
"""How long a stopped replica hangs: longer than a stream may be silent."""
_READY_WITHIN_S = 60.0


async def kill_replicas(fleet: Fleet, num_kills: int) -> int:
    """SIGKILL; the replica starts again at once. Returns the number of kills."""

    async def kill(victim: SpawnedMockVllm) -> None:
        await asyncio.to_thread(victim.kill)
        await asyncio.to_thread(victim.start)

    return await _in_both_halves(fleet, num_kills, kill)


async def stop_replicas(fleet: Fleet, num_stops: int) -> int:
    """SIGSTOP; the replica is resumed after 2 s. Returns the number of stops."""

    async def stop(victim: SpawnedMockVllm) -> None:
        victim.stop()
        try:
            # sleep: that it is stopped for a while is the fault; every stream is right anyway
            await asyncio.sleep(_STOPPED_S)
        finally:
            victim.resume()

    return await _in_both_halves(fleet, num_stops, stop)


async def _in_both_halves(fleet: Fleet, num_faults: int, inject: Inject) -> int:
    """Inject faults in both halves of the fleet at the same time; returns their number.

    In each half, all replicas serve before the next one gets its fault.
    """
    middle, end = len(fleet.mock_vllms) // 2, len(fleet.mock_vllms)

    async def inject_in(indices: range, num_faults: int) -> int:
        num_injected = 0
        drawn = random.Random(indices.start)
        loop, struck_s = asyncio.get_running_loop(), -_LIFE_S
        for _ in range(num_faults):
            # sleep: no two faults strike a replica at once; a longer pause is as good
            await asyncio.sleep(max(0.0, struck_s + _LIFE_S - loop.time()))
            await _wait_ready(fleet, {f"r{index}" for index in indices})
            # sleep: faults strike at random moments
            await asyncio.sleep(drawn.uniform(*_PAUSE_S))
            struck_s = loop.time()
            await inject(fleet.mock_vllms[drawn.choice(indices)])
            num_injected += 1
        return num_injected

    numbers = await asyncio.gather(
        inject_in(range(middle), num_faults // 2),
        inject_in(range(middle, end), num_faults - num_faults // 2),
    )
    return sum(numbers)


async def _wait_ready(fleet: Fleet, names: set[str]) -> None:
    async def are_ready() -> bool:
        states = await asyncio.to_thread(fleet.gateway.replicas)
        return names <= {one["name"] for one in states if one["state"] == "ready"}

    await until(are_ready, _READY_WITHIN_S)
