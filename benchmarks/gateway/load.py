"""Load generators: a fixed number of open streams, or Poisson arrivals.

Both draw their request bodies from the seed, so every server gets the same ones.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.gateway.sse_client import Exchange, Pool

_WORDS = ("wheel", "wind", "road", "ride", "lead", "pace", "line", "turn", "hill", "sprint")
_SETTLE_S = 0.5
"""From the start of the last stream to the start of the measurement."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of the requests and their answers."""

    model: str
    num_prompt_words: int
    min_tokens: int
    max_tokens: int


def bodies(shape: Shape, seed: int) -> Iterator[bytes]:
    """Endless chat requests with random lengths within the shape."""
    drawn = random.Random(seed)
    while True:
        words = " ".join(drawn.choices(_WORDS, k=shape.num_prompt_words))
        request = {
            "model": shape.model,
            "messages": [{"role": "user", "content": words}],
            "max_tokens": drawn.randint(shape.min_tokens, shape.max_tokens),
            "temperature": 0,
            "stream": True,
        }
        yield json.dumps(request).encode()


async def keep_open(
    pools: Sequence[Pool],
    shape: Shape,
    seed: int,
    *,
    num_streams: int,
    spread_s: float,
    duration_s: float,
    on_warm: Callable[[], None],
) -> tuple[list[Exchange], float]:
    """Keep `num_streams` streams open until `duration_s` after all have started, then drop all.

    The first streams start evenly over `spread_s`; requests go to the pools in turn. Returns all
    exchanges (dropped ones have `is_cut`) and the time at which the duration began; `on_warm` is
    called at that time.
    """
    loop = asyncio.get_running_loop()
    request_bodies, pool_in_turn = bodies(shape, seed), itertools.cycle(pools)
    ended: list[Exchange] = []
    num_open = 0
    is_over, all_ended = False, asyncio.Event()

    def begin() -> None:
        nonlocal num_open
        if not is_over:
            num_open += 1
            next(pool_in_turn).send(next(request_bodies), end, time.perf_counter())

    def end(exchange: Exchange) -> None:
        nonlocal num_open
        num_open -= 1
        exchange.is_cut = is_over and not exchange.is_complete
        ended.append(exchange)
        if not is_over:
            # not from the callback of the connection, which must become idle first
            loop.call_soon(begin) if exchange.status else loop.call_later(0.1, begin)
        elif not num_open:
            all_ended.set()

    for index in range(num_streams):
        loop.call_later(spread_s * index / num_streams, begin)
    await asyncio.sleep(spread_s + _SETTLE_S)
    warm_s = time.perf_counter()
    on_warm()
    await asyncio.sleep(duration_s)
    is_over = True
    for pool in pools:
        pool.close()
    if num_open:
        await all_ended.wait()
    return ended, warm_s


async def arrive(
    pools: Sequence[Pool],
    shape: Shape,
    seed: int,
    *,
    requests_per_s: float,
    warm_up_s: float,
    duration_s: float,
    give_up_s: float,
    on_warm: Callable[[], None],
) -> list[Exchange]:
    """Send requests as a Poisson process, whether or not earlier requests have ended.

    Returns the requests that were due within `duration_s` after the warm-up. Requests still open
    `give_up_s` later are dropped and count as incomplete.
    """
    loop = asyncio.get_running_loop()
    request_bodies, pool_in_turn = bodies(shape, seed), itertools.cycle(pools)
    gaps = random.Random(seed + 1)
    ended: list[Exchange] = []
    num_open = 0
    all_ended = asyncio.Event()
    begin_s = time.perf_counter()
    due_s = begin_s + gaps.expovariate(requests_per_s)
    end_s = begin_s + warm_up_s + duration_s

    def end(exchange: Exchange) -> None:
        nonlocal num_open
        num_open -= 1
        ended.append(exchange)
        if not num_open:
            all_ended.set()

    loop.call_later(warm_up_s, on_warm)
    while due_s < end_s:
        await asyncio.sleep(max(due_s - time.perf_counter(), 0))
        while due_s <= time.perf_counter() and due_s < end_s:
            num_open += 1
            all_ended.clear()
            next(pool_in_turn).send(next(request_bodies), end, due_s)
            due_s += gaps.expovariate(requests_per_s)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(give_up_s):
            await all_ended.wait()
    for pool in pools:
        pool.close()
    await all_ended.wait()
    return [exchange for exchange in ended if exchange.due_s >= begin_s + warm_up_s]
