"""Replicas that are killed, hang, exit, crash in a loop, or are all gone: what do clients read?

The tokens of every stream are those of an answer that was never broken, and the replicas' own
ledgers say the same.
"""

from __future__ import annotations

import asyncio
import time

import pytest

from chaos.expected_requests import ask_all, faults_of, known, num_struck
from chaos.fleet import Fleet, running_fleet, until
from chaos.transcript import Ending

NUM_STREAMS = 16


@pytest.mark.parametrize("after_tokens", [None, 0, 1, 2, 7, 30, 59])
async def test_sigkill(fleet: Fleet, after_tokens: int | None) -> None:
    """None: before the head of the answer; 0: behind it, before the first token."""
    conditions = {"times": 1} if after_tokens is None else {"after_tokens": after_tokens}
    fleet.set_fault(0, kind="die", **conditions)
    asked = [known(number) for number in range(NUM_STREAMS)]
    told = await ask_all(fleet, asked, name=f"sigkill-{after_tokens}")
    assert faults_of(fleet, asked, told) == []
    assert fleet.mock_vllms[0].returncode == -9
    assert num_struck(fleet, told) > 0


async def test_sigkill_without_streaming(fleet: Fleet) -> None:
    fleet.set_fault(0, kind="die", after_tokens=20)
    asked = [known(number, stream=False) for number in range(NUM_STREAMS)]
    told = await ask_all(fleet, asked, name="sigkill-whole")
    assert faults_of(fleet, asked, told) == []
    assert num_struck(fleet, told) > 0


@pytest.mark.parametrize("exit_code", [0, 1])
async def test_exit(fleet: Fleet, exit_code: int) -> None:
    fleet.set_fault(0, kind="die", exit_code=exit_code, after_tokens=5)
    asked = [known(number) for number in range(NUM_STREAMS)]
    told = await ask_all(fleet, asked, name=f"exit-{exit_code}")
    assert faults_of(fleet, asked, told) == []
    assert fleet.mock_vllms[0].returncode == exit_code


@pytest.mark.parametrize("after_s", [0.0, 0.1])
async def test_sigstop(fleet: Fleet, after_s: float) -> None:
    """Hung with the port open: before its first byte, and in the middle."""
    asked = [known(number) for number in range(NUM_STREAMS)]
    if not after_s:
        fleet.mock_vllms[0].stop()
    asking = asyncio.create_task(ask_all(fleet, asked, name=f"sigstop-{after_s}"))
    await asyncio.sleep(after_s)
    fleet.mock_vllms[0].stop()
    told = await asking
    fleet.mock_vllms[0].resume()
    assert faults_of(fleet, asked, told) == []
    assert max(answer.ended_s - answer.began_s for answer in told) < 20


async def test_an_engine_that_hangs_behind_a_live_server(fleet: Fleet) -> None:
    """Its /health still answers; what tells is that no stream goes on."""
    fleet.set_fault(0, kind="hang", after_tokens=10)
    asked = [known(number) for number in range(NUM_STREAMS)]
    told = await ask_all(fleet, asked, name="hang")
    assert faults_of(fleet, asked, told) == []
    assert num_struck(fleet, told) > 0


async def test_crash_loop(fleet: Fleet) -> None:
    """Dies again as soon as it serves, for six seconds; requests come all the time."""
    mock_vllm = fleet.mock_vllms[0]
    is_over = asyncio.Event()
    num_deaths = 0

    async def crash() -> None:
        nonlocal num_deaths
        while not is_over.is_set():
            if mock_vllm.returncode is not None:
                num_deaths += 1
                await asyncio.to_thread(mock_vllm.start)
                fleet.set_fault(0, kind="die", after_tokens=3)
            await asyncio.sleep(0.05)

    fleet.set_fault(0, kind="die", after_tokens=3)
    crashing = asyncio.create_task(crash())
    asked, told, until_s, round_number = [], [], time.monotonic() + 6, 0
    while time.monotonic() < until_s:
        some = [known(number) for number in range(8)]
        told += await ask_all(fleet, some, name=f"loop-{round_number}")
        asked += some
        round_number += 1
    is_over.set()
    await crashing
    assert faults_of(fleet, asked, told) == []
    assert num_deaths >= 2
    assert num_struck(fleet, told) < len(told) / 2, "the breaker does not keep requests away"


@pytest.mark.parametrize("after_tokens", [None, 20])
async def test_all_dead_then_one_back(fleet: Fleet, after_tokens: int | None) -> None:
    conditions = {"times": 1} if after_tokens is None else {"after_tokens": after_tokens}
    for replica in (0, 1):
        fleet.set_fault(replica, kind="die", **conditions)
    asked = [known(number) for number in range(NUM_STREAMS)]
    asking = asyncio.create_task(ask_all(fleet, asked, name=f"all-dead-{after_tokens}"))
    both = fleet.mock_vllms
    await asyncio.to_thread(until, lambda: None not in [one.returncode for one in both])
    await asyncio.sleep(1)
    await asyncio.to_thread(fleet.mock_vllms[1].start)
    told = await asking
    assert faults_of(fleet, asked, told) == []


async def test_a_request_that_kills_engines_does_not_take_them_all() -> None:
    """Three attempts, whether an engine dies before the head of its answer or behind it."""
    with running_fleet(5, "--tpot-ms", "4") as many:
        for replica in range(5):
            many.set_fault(replica, kind="die", times=1)
        (told,) = await ask_all(many, [known(0)], name="poison")
        assert told.status == 503
        assert sum(mock_vllm.returncode is not None for mock_vllm in many.mock_vllms) == 3


@pytest.mark.parametrize(("tokens_apart", "is_bearable"), [(20, True), (9, False)])
async def test_streams_struck_again_and_again(
    fleet: Fleet, tokens_apart: int, is_bearable: bool
) -> None:
    """Far more often than `max_continuations`: what gets on goes on, what hardly does is given up,
    for it may be what kills the engines."""
    for replica in (0, 1):
        fleet.set_fault(replica, kind="reset", after_tokens=tokens_apart)
    asked, num_before = [known(2, max_tokens=200)], len(fleet.records())
    told = await ask_all(fleet, asked, name=f"struck-{tokens_apart}")
    num_attempts = len(fleet.records()) - num_before
    if is_bearable:
        assert faults_of(fleet, asked, told) == []
        assert num_attempts > 6
    else:
        assert told[0].ending is Ending.ERROR_EVENT
        assert num_attempts == 1 + 3


async def test_refused_connections(fleet: Fleet) -> None:
    """The last of the file: while it lasts, the replica cannot be told anything either."""
    fleet.set_fault(0, kind="refuse", duration_s=1)
    asked = [known(number) for number in range(NUM_STREAMS)]
    told = await ask_all(fleet, asked, name="refuse")
    assert faults_of(fleet, asked, told) == []
