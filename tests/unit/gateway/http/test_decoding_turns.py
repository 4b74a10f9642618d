"""Other work runs between two large bodies, and small bodies do not wait."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest

from paceline.gateway.http.decoding_turns import DecodingTurns

MIB = 1024 * 1024


async def test_other_work_runs_between_two_large_bodies() -> None:
    """A stream gets its chunk after each body."""
    turns = DecodingTurns()
    order: list[str] = []

    async def decode() -> None:
        async with turns.turn(MIB):
            time.sleep(0.005)  # noqa: ASYNC251 - decoding blocks the event loop
            order.append("body")

    await asyncio.gather(*(decode() for _ in range(5)), chunks_between(order))
    assert "body body" not in " ".join(order)


async def test_other_work_runs_between_two_large_bodies_that_are_refused() -> None:
    turns = DecodingTurns()
    order: list[str] = []

    async def decode() -> None:
        with contextlib.suppress(ValueError):
            async with turns.turn(MIB):
                time.sleep(0.005)  # noqa: ASYNC251 - decoding blocks the event loop
                order.append("body")
                raise ValueError("refused")

    await asyncio.gather(*(decode() for _ in range(5)), chunks_between(order))
    assert "body body" not in " ".join(order)


async def chunks_between(order: list[str]) -> None:
    """A stream that needs three turns of the event loop per chunk."""
    while order.count("body") < 5:
        for _ in range(3):
            await asyncio.sleep(0)
        order.append("chunk")


async def test_the_pauses_after_short_blocks_are_added_up() -> None:
    """A body that arrives in a thousand parts must not wait for a timer after each of them."""
    turns = DecodingTurns()
    async with asyncio.timeout(15):  # with a timer of 1 ms after each, 20 s
        for _ in range(20_000):
            async with turns.turn(MIB):
                pass


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
