"""Kill or stop replicas drawn at random, again and again."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

from chaos.fleet import Fleet
from chaos.mixed_load.strikes import Strike

Inject = Callable[[Fleet, int], Awaitable[str]]
"""Make the replica of this index fail and run again; returns what the gateway left to it."""

_PAUSE_S = (0.2, 0.6)
_LIFE_S = 4.0
"""Least time between two faults in a half of the fleet, however fast the machine starts replicas:
with shorter lives, most slow readers lose the two replicas that a stream may lose."""
_READY_WITHIN_S = 60.0
_NOTICED_WITHIN_S = 60.0
_POLL_S = 0.05


async def kill_replicas(
    fleet: Fleet,
    num_kills: int,
    on_strike: Callable[[Strike], None] = lambda strike: None,
    *,
    seed: object = "",
) -> list[Strike]:
    """SIGKILL; the replica starts again at once. `on_strike` is called after each kill."""

    async def kill(fleet: Fleet, index: int) -> str:
        victim = fleet.mock_vllms[index]
        await asyncio.to_thread(victim.kill)
        await asyncio.to_thread(victim.start)
        return ""

    return await _in_both_halves(fleet, num_kills, "SIGKILL", kill, on_strike, seed)


async def stop_replicas(
    fleet: Fleet,
    num_stops: int,
    on_strike: Callable[[Strike], None] = lambda strike: None,
    *,
    seed: object = "",
) -> list[Strike]:
    """SIGSTOP until the gateway has noticed, then SIGCONT.

    The replica is out of service then, and half of its requests or more are elsewhere. Those whose
    clients read slowly stay until the clients read.
    """

    async def stop(fleet: Fleet, index: int) -> str:
        victim = fleet.mock_vllms[index]
        before = await asyncio.to_thread(_state_of, fleet, index)
        victim.stop()
        try:
            return await _left_to(fleet, index, before["in_flight"])
        finally:
            victim.resume()

    return await _in_both_halves(fleet, num_stops, "SIGSTOP", stop, on_strike, seed)


async def _in_both_halves(
    fleet: Fleet,
    num_faults: int,
    signal: str,
    inject: Inject,
    on_strike: Callable[[Strike], None],
    seed: object,
) -> list[Strike]:
    """Inject faults in both halves of the fleet at the same time.

    In each half, all replicas serve before the next one gets its fault.
    """
    middle, end = len(fleet.mock_vllms) // 2, len(fleet.mock_vllms)
    strikes: list[Strike] = []

    async def inject_in(indices: range, num_faults: int) -> None:
        drawn = random.Random(f"{seed}-{indices.start}")
        loop, struck_s = asyncio.get_running_loop(), -_LIFE_S
        for _ in range(num_faults):
            # sleep: no two faults strike a replica at once; a longer pause is as good
            await asyncio.sleep(max(0.0, struck_s + _LIFE_S - loop.time()))
            await _wait_ready(fleet, {f"r{index}" for index in indices})
            # sleep: faults strike at random moments
            await asyncio.sleep(drawn.uniform(*_PAUSE_S))
            struck_s, start_s = loop.time(), time.time()
            index = drawn.choice(indices)
            left = await inject(fleet, index)
            strikes.append(Strike(index, signal, start_s, time.time(), not left, left))
            on_strike(strikes[-1])

    await asyncio.gather(
        inject_in(range(middle), num_faults // 2),
        inject_in(range(middle, end), num_faults - num_faults // 2),
    )
    return strikes


async def _wait_ready(fleet: Fleet, names: set[str]) -> None:
    async def are_ready() -> bool:
        states = await asyncio.to_thread(fleet.gateway.replicas)
        return names <= {one["name"] for one in states if one["state"] == "ready"}

    if not await _comes_true(are_ready, _READY_WITHIN_S):
        raise TimeoutError(f"not ready within {_READY_WITHIN_S:g} s: {sorted(names)}")


async def _left_to(fleet: Fleet, index: int, num_before: int) -> str:
    """Wait until the replica is out of service and has half of its requests or fewer; what it still
    has if that takes too long."""
    state: dict[str, Any] = {}

    async def is_out() -> bool:
        state.update(await asyncio.to_thread(_state_of, fleet, index))
        return state["state"] != "ready" and state["in_flight"] <= num_before // 2

    if await _comes_true(is_out, _NOTICED_WITHIN_S):
        return ""
    return f"{state['state']}, {state['in_flight']} requests in flight, {num_before} before"


async def _comes_true(condition: Callable[[], Awaitable[bool]], within_s: float) -> bool:
    """Ask 20 times a second: each is a request to the gateway that is under load."""
    deadline_s = time.monotonic() + within_s
    while not await condition():
        if time.monotonic() > deadline_s:
            return False
        # sleep: the pause between two looks decides nothing
        await asyncio.sleep(_POLL_S)
    return True


def _state_of(fleet: Fleet, index: int) -> dict[str, Any]:
    (state,) = (one for one in fleet.gateway.replicas() if one["name"] == f"r{index}")
    return state
