"""Other work runs between two large bodies, and small bodies do not wait."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from paceline.runtime.gateway.http.decoding_turns import DecodingTurns
from unit.bench.trace.virtual_time import VirtualLoop, now_s, run_virtually

MIB = 1024 * 1024
NUM_BODIES = 5


@pytest.mark.parametrize("is_refused", [False, True])
def test_other_work_runs_between_two_large_bodies(is_refused: bool) -> None:
    """In virtual time: a stream with a chunk every millisecond, and bodies of 5 ms each."""
    order: list[str] = []

    async def decode(turns: DecodingTurns) -> None:
        with contextlib.suppress(ValueError):
            async with turns.turn(MIB):
                spend(0.005)
                order.append("body")
                if is_refused:
                    raise ValueError("refused")

    async def stream() -> None:
        while order.count("body") < NUM_BODIES:
            await asyncio.sleep(0.001)
            order.append("chunk")

    async def scenario() -> None:
        turns = DecodingTurns(now_s)
        await asyncio.gather(*(decode(turns) for _ in range(NUM_BODIES)), stream())

    run_virtually(scenario())
    pauses = " ".join(order).split("body")[1:-1]
    assert len(pauses) == NUM_BODIES - 1
    assert min(pause.count("chunk") for pause in pauses) >= 4


def spend(seconds: float) -> None:
    """Block the event loop for this long."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    loop.now_s += seconds


def test_the_pauses_after_short_blocks_are_added_up() -> None:
    """A body that arrives in a thousand parts must not wait for a timer after each of them."""

    async def scenario() -> None:
        turns, began_s = DecodingTurns(now_s), now_s()
        for _ in range(20_000):
            async with turns.turn(MIB):
                spend(1e-6)
        assert now_s() - began_s < 1.0  # with a timer of 1 ms after each, 20 s

    run_virtually(scenario())


async def test_a_small_body_does_not_wait() -> None:
    turns = DecodingTurns()
    async with turns.turn(MIB), turns.turn(100):
        pass


async def test_a_refused_body_passes_the_turn_on() -> None:
    turns = DecodingTurns()
    with pytest.raises(ValueError, match="refused"):
        async with turns.turn(MIB):
            raise ValueError("refused")
    async with asyncio.timeout(60), turns.turn(MIB):
        pass
