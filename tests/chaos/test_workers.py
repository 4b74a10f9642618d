"""A gateway of two worker processes: the cases in which several could differ from one."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from chaos.expected_requests import ask_all, faults_of, known, num_struck
from chaos.fleet import IDLE, Fleet, running_fleet, until
from chaos.leaving import Moment, leave
from chaos.transcript import Ending

NUM_STREAMS = 16
NUM_PLACES = 16
CONFIG = {"server": {"workers": 2}, "admission": {"max_in_flight": 8, "max_queue": 16}}


@pytest.fixture(scope="module")
def pair() -> Iterator[Fleet]:
    with running_fleet(2, "--tpot-ms", "4", config=CONFIG) as running:
        yield running


def workers_of(fleet: Fleet) -> list[psutil.Process]:
    """The processes that serve the data port."""
    children = psutil.Process(fleet.served.pid).children()
    program = "gateway/workers/__main__.py"
    return [child for child in children if program in " ".join(child.cmdline())]


@pytest.mark.parametrize("after_tokens", [None, 7])
async def test_sigkill_of_a_replica(fleet: Fleet, after_tokens: int | None) -> None:
    """None: before the head of the answer."""
    conditions = {"times": 1} if after_tokens is None else {"after_tokens": after_tokens}
    fleet.set_fault(0, kind="die", **conditions)
    asked = [known(number) for number in range(NUM_STREAMS)]
    told = await ask_all(fleet, asked, name=f"workers-sigkill-{after_tokens}")
    assert faults_of(fleet, asked, told) == []
    assert fleet.mock_vllms[0].returncode == -9
    assert num_struck(fleet, told) > 0


async def test_too_many_are_refused_at_once_and_the_others_complete(fleet: Fleet) -> None:
    """SlotQuota and queue are those of one gateway: 16 and 16, not twice as many."""
    before = len(fleet.records())
    asked = [known(2 * number, max_tokens=200) for number in range(100)]
    told = await ask_all(fleet, asked, name="workers-overload")
    endings = [answer.ending for answer in told]
    assert set(endings) == {Ending.COMPLETED, Ending.REFUSED}
    refused = [answer for answer in told if answer.ending is Ending.REFUSED]
    assert {answer.error["code"] for answer in refused if answer.error} == {"overloaded"}
    assert len(refused) >= 100 - 2 * NUM_PLACES - 2 * NUM_PLACES  # some end before the last come
    records = fleet.records()[before:]
    changes = [(one.begun_s, 1) for one in records]
    changes += [(one.ended_s or 0.0, -1) for one in records]
    now, most = 0, 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    assert most <= NUM_PLACES


async def test_clients_that_leave_give_their_places_back(fleet: Fleet) -> None:
    drawn = random.Random(0)
    moments = [m for m in Moment if m is not Moment.QUEUED]
    asked = [known(number, max_tokens=30, stream=bool(number % 4)) for number in range(80)]

    async def one(number: int) -> None:
        leaving = leave(fleet, asked[number], f"workers-leaves-{number}", drawn.choice(moments))
        with suppress(TimeoutError):
            await asyncio.wait_for(leaving, drawn.uniform(0.01, 0.5))

    await asyncio.gather(*(one(number) for number in range(len(asked))))
    until(lambda: fleet.served.num_in_flight == 0 and fleet.loads() == [IDLE] * 2)
    assert all(record.ending is not None for record in fleet.records())


async def test_a_killed_worker_comes_back_and_totals_never_fall(fleet: Fleet) -> None:
    completed = 'paceline_requests_total{outcome="completed"}'
    seen, is_over = [0.0], asyncio.Event()

    async def watch() -> None:
        while not is_over.is_set():
            metrics = await asyncio.to_thread(fleet.served.metrics)
            seen.append(metrics[completed])
            await asyncio.sleep(0.01)

    watching = asyncio.create_task(watch())
    for number in range(2):
        asked = [known(place) for place in range(8)]
        asking = asyncio.create_task(ask_all(fleet, asked, name=f"workers-killed-{number}"))
        await asyncio.sleep(0.1)
        workers_of(fleet)[number].kill()
        told = await asking
        lost = [answer for answer in told if answer.broke]
        kept = [(one, answer) for one, answer in zip(asked, told, strict=True) if not answer.broke]
        assert all(answer.ending is Ending.TRUNCATED for answer in lost)  # as with any gateway
        assert faults_of(fleet, [one for one, _ in kept], [answer for _, answer in kept]) == []
        after = await ask_all(fleet, asked, name=f"workers-alive-{number}")
        assert faults_of(fleet, asked, after) == []
        await asyncio.to_thread(until, lambda: len(workers_of(fleet)) == 2)
    is_over.set()
    await watching
    assert seen == sorted(seen)
    assert seen[-1] >= 16
    assert fleet.served.metrics()["paceline_worker_restarts_total"] == 2


async def test_sigterm_lets_streams_end() -> None:
    config = {**CONFIG, "server": {"workers": 2, "drain_timeout_s": 20}}
    with running_fleet(1, "--tpot-ms", "20", config=config) as fleet:
        asked = [known(number) for number in range(10, 18)]  # none of them short
        asking = asyncio.create_task(ask_all(fleet, asked, name="workers-drain"))
        await asyncio.to_thread(until, lambda: fleet.served.num_in_flight == len(asked))
        workers = workers_of(fleet)
        fleet.served.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.4)
        assert not fleet.served.takes_connections()
        told = await asking
        assert faults_of(fleet, asked, told) == []
        assert await asyncio.to_thread(fleet.served.process.wait, 10) == 0
        assert not any(worker.is_running() for worker in workers)


async def test_a_killed_head_takes_its_workers_with_it() -> None:
    with running_fleet(1, "--tpot-ms", "20", config=CONFIG) as fleet:
        workers = workers_of(fleet)
        asking = asyncio.create_task(ask_all(fleet, [known(0)], name="workers-orphans"))
        await asyncio.to_thread(until, lambda: fleet.served.num_in_flight == 1)
        os.kill(fleet.served.pid, signal.SIGKILL)
        (told,) = await asking
        assert told.ending in (Ending.ERROR_EVENT, Ending.REFUSED)
        assert told.error is not None
        assert told.error["code"] == "server_stopping"
        gone, alive = await asyncio.to_thread(psutil.wait_procs, workers, 5)
        assert (len(gone), alive) == (2, [])
        assert not fleet.served.takes_connections()
