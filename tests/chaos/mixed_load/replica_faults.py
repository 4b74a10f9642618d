"""Kill or stop replicas again and again, one drawn at random at a time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from chaos.fleet import Fleet

_PAUSE_S = (0.2, 0.6)
_STOPPED_S = 2.0
"""How long a stopped replica hangs: longer than a stream may be silent."""
_READY_WITHIN_S = 60.0


async def kill_replicas(fleet: Fleet, num_kills: int, seed: int = 0) -> None:
    """SIGKILL one replica after the other; each starts again at once, and serves before the next
    one is killed."""
    drawn = random.Random(seed)
    for _ in range(num_kills):
        await asyncio.sleep(drawn.uniform(*_PAUSE_S))
        await asyncio.to_thread(fleet.gateway.wait_ready, len(fleet.mock_vllms), _READY_WITHIN_S)
        victim = drawn.choice(fleet.mock_vllms)
        await asyncio.to_thread(victim.kill)
        await asyncio.to_thread(victim.start)


async def stop_replicas(fleet: Fleet, num_stops: int, seed: int = 0) -> None:
    """SIGSTOP replicas, in both halves of the fleet at the same time; each is resumed after 2 s,
    and serves before the next one of its half is stopped."""
    middle = len(fleet.mock_vllms) // 2
    await asyncio.gather(
        _stop_some(fleet, range(middle), num_stops // 2, seed),
        _stop_some(
            fleet, range(middle, len(fleet.mock_vllms)), num_stops - num_stops // 2, seed + 1
        ),
    )


async def _stop_some(fleet: Fleet, indices: Sequence[int], num_stops: int, seed: int) -> None:
    drawn = random.Random(seed)
    for _ in range(num_stops):
        await asyncio.sleep(drawn.uniform(*_PAUSE_S))
        await _wait_ready(fleet, {f"r{index}" for index in indices})
        victim = fleet.mock_vllms[drawn.choice(indices)]
        victim.stop()
        try:
            await asyncio.sleep(_STOPPED_S)
        finally:
            victim.resume()


async def _wait_ready(fleet: Fleet, names: set[str]) -> None:
    async with asyncio.timeout(_READY_WITHIN_S):
        while True:
            states = await asyncio.to_thread(fleet.gateway.replicas)
            if names <= {one["name"] for one in states if one["state"] == "ready"}:
                return
            await asyncio.sleep(0.05)
