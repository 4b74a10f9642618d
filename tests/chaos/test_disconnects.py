"""Clients that leave: does the replica stop, and does the gateway hold nothing back?

When an answer was aborted is read from the replica's own ledger and clock.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

import pytest

from chaos.expected_requests import Known, ask_all, faults_of, known
from chaos.fleet import IDLE, Fleet, running_fleet, until
from chaos.leaving import Moment, leave
from paceline.mock_vllm import RequestRecord

ABORT_WITHIN_S = 5.0
"""Room for a busy machine; `make soak` measures it: 99 of 100 within 100 ms."""


@pytest.fixture(scope="module")
def pair() -> Iterator[Fleet]:
    """One replica that takes four at a time, 20 ms a token, prompts at 40 tokens a second."""
    config = {"admission": {"max_in_flight": 4}}
    flags = ("--tpot-ms", "20", "--prefill-tokens-per-s", "40")
    with running_fleet(1, *flags, config=config) as running:
        yield running


def at_base(fleet: Fleet) -> bool:
    return fleet.served.num_in_flight == 0 and fleet.loads() == [IDLE] * len(fleet.mock_vllms)


def the_record(fleet: Fleet, name: str) -> RequestRecord | None:
    return next(iter(fleet.records_of(name)), None)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "moment", [Moment.IN_PREFILL, Moment.FIRST_TOKEN, Moment.SOME_TOKENS, Moment.LAST_TOKEN]
)
async def test_leaving(fleet: Fleet, moment: Moment, stream: bool) -> None:
    """Without streaming the moments are those of the replica's ledger: the client sees nothing."""
    name = f"leaves-{moment.name}-{stream}"
    left_at_s = await leave(fleet, known(0, max_tokens=30, stream=stream), name, moment)
    until(lambda: at_base(fleet))
    record = the_record(fleet, name)
    assert record is not None
    assert record.ended_s is not None
    if moment is Moment.LAST_TOKEN:
        assert record.ending in ("finished", "aborted")
    else:
        assert record.ending == "aborted"
    assert record.ended_s - left_at_s < ABORT_WITHIN_S


@pytest.mark.parametrize("stream", [True, False])
async def test_leaving_the_queue(fleet: Fleet, stream: bool) -> None:
    """Who left the gateway's own queue is never sent to a replica, and frees its place."""
    before = [asyncio.create_task(ask_all(fleet, [known(n)], name=f"a{stream}{n}")) for n in (0, 1)]
    before += [
        asyncio.create_task(ask_all(fleet, [known(n)], name=f"a{stream}{n}")) for n in (2, 3)
    ]
    await asyncio.sleep(0.3)
    waiting = "paceline_admission_queue_length"
    leaving = asyncio.create_task(
        leave(fleet, known(4, stream=stream), f"q{stream}", Moment.QUEUED)
    )
    await leaving
    await asyncio.to_thread(until, lambda: fleet.served.metrics()[waiting] == 0)
    for task, number in zip(before, range(4), strict=True):
        told = await task
        assert faults_of(fleet, [known(number)], told) == []
    assert fleet.records_of(f"q{stream}") == []
    until(lambda: at_base(fleet))


async def test_two_hundred_leave_at_random(fleet: Fleet) -> None:
    """Of four at a time and a queue: running, waiting and KV use come back to nothing."""
    drawn = random.Random(0)
    moments = [m for m in Moment if m is not Moment.QUEUED]
    asked = [known(number, max_tokens=30, stream=bool(number % 4)) for number in range(200)]

    async def one(number: int, request: Known) -> None:
        leaving = leave(fleet, request, f"two-hundred-{number}", drawn.choice(moments))
        with_limit = asyncio.wait_for(leaving, drawn.uniform(0.01, 1.0))
        try:
            await with_limit
        except TimeoutError:
            return

    await asyncio.gather(*(one(number, request) for number, request in enumerate(asked)))
    until(lambda: at_base(fleet))
    assert all(r.ending is not None for r in fleet.records())
