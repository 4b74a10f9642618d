"""A gateway with two worker processes behaves like a gateway with one."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from chaos.disconnecting import Moment, disconnect_at
from chaos.expected_requests import expected_request, find_errors, num_failed_over, send_all
from chaos.fleet import IDLE, Fleet, running_fleet, wait_until
from chaos.transcript import Ending

NUM_STREAMS = 16
NUM_SLOTS = 16
CONFIG = {"server": {"workers": 2}, "admission": {"max_in_flight": 8, "max_queue": 16}}


@pytest.fixture(scope="module")
def pair() -> Iterator[Fleet]:
    with running_fleet(2, "--tpot-ms", "4", config=CONFIG) as running:
        yield running


def workers_of(fleet: Fleet) -> list[psutil.Process]:
    """Return the processes that serve the data port."""
    children = psutil.Process(fleet.gateway.pid).children()
    program = "gateway/workers/__main__.py"
    return [child for child in children if program in " ".join(child.cmdline())]


@pytest.mark.parametrize("after_tokens", [pytest.param(None, marks=pytest.mark.slow), 7])
async def test_sigkill_of_a_replica(fleet: Fleet, after_tokens: int | None) -> None:
    """None: before the head of the answer."""
    conditions = {"times": 1} if after_tokens is None else {"after_tokens": after_tokens}
    fleet.add_fault(0, kind="die", **conditions)
    requests = [expected_request(number) for number in range(NUM_STREAMS)]
    transcripts = await send_all(fleet, requests, name=f"workers-sigkill-{after_tokens}")
    assert find_errors(fleet, requests, transcripts) == []
    assert await asyncio.to_thread(fleet.mock_vllms[0].wait) == -9
    assert num_failed_over(fleet, transcripts) > 0


async def test_excess_requests_are_refused_and_all_others_completed(fleet: Fleet) -> None:
    """The workers share the slots and the queue: 16 and 16 in all, not 16 and 16 each."""
    num_before = len(fleet.records())
    requests = [expected_request(2 * number, max_tokens=200) for number in range(100)]
    transcripts = await send_all(fleet, requests, name="workers-overload")
    assert {t.ending for t in transcripts} == {Ending.COMPLETED, Ending.REFUSED}
    refused = [t for t in transcripts if t.ending is Ending.REFUSED]
    assert {t.error["code"] for t in refused if t.error} == {"overloaded"}
    # Twice slots and queue, since some requests end before the last ones arrive
    assert len(refused) >= 100 - 2 * NUM_SLOTS - 2 * NUM_SLOTS
    records = fleet.ended_records()[num_before:]
    changes = [(record.begun_s, 1) for record in records]
    changes += [(record.ended_s or 0.0, -1) for record in records]
    num_running = most = 0
    for _, change in sorted(changes):
        num_running += change
        most = max(most, num_running)
    assert most <= NUM_SLOTS


async def test_clients_that_disconnect_free_their_slots(fleet: Fleet) -> None:
    rng = random.Random(0)
    moments = [m for m in Moment if m is not Moment.QUEUED]

    async def disconnect(number: int) -> None:
        request = expected_request(number, max_tokens=30, stream=bool(number % 4))
        disconnecting = disconnect_at(
            fleet, request, f"workers-leaves-{number}", rng.choice(moments)
        )
        with suppress(TimeoutError):
            await asyncio.wait_for(disconnecting, rng.uniform(0.01, 0.5))

    await asyncio.gather(*(disconnect(number) for number in range(80)))
    wait_until(lambda: fleet.gateway.num_in_flight == 0 and fleet.loads() == [IDLE] * 2)
    assert all(record.ending is not None for record in fleet.ended_records())


async def test_a_killed_worker_is_restarted_and_totals_never_fall(fleet: Fleet) -> None:
    completed = 'paceline_requests_total{outcome="completed"}'
    totals, is_over = [0.0], asyncio.Event()

    async def watch() -> None:
        while not is_over.is_set():
            metrics = await asyncio.to_thread(fleet.gateway.metrics)
            totals.append(metrics[completed])
            # sleep: the pause between two looks decides nothing
            await asyncio.sleep(0.01)

    watching = asyncio.create_task(watch())
    for worker in range(2):
        requests = [expected_request(number) for number in range(8)]
        name = f"workers-killed-{worker}"
        sending = asyncio.create_task(send_all(fleet, requests, name=name))
        await asyncio.to_thread(wait_until, lambda name=name: fleet.num_started(name) > 0)
        workers_of(fleet)[worker].kill()
        pairs = list(zip(requests, await sending, strict=True))
        lost = [transcript for _, transcript in pairs if transcript.read_error]
        kept = [(request, transcript) for request, transcript in pairs if not transcript.read_error]
        # The connections of the killed process break, as with a gateway of one process.
        assert all(transcript.ending is Ending.TRUNCATED for transcript in lost)
        kept_requests, kept_transcripts = [r for r, _ in kept], [t for _, t in kept]
        assert find_errors(fleet, kept_requests, kept_transcripts) == []
        after = await send_all(fleet, requests, name=f"workers-alive-{worker}")
        assert find_errors(fleet, requests, after) == []
        await asyncio.to_thread(wait_until, lambda: len(workers_of(fleet)) == 2)
    await asyncio.to_thread(wait_until, lambda: totals[-1] >= 16)
    is_over.set()
    await watching
    assert totals == sorted(totals)
    await asyncio.to_thread(wait_until, lambda: num_restarts(fleet) >= 2)
    assert num_restarts(fleet) == 2


def num_restarts(fleet: Fleet) -> float:
    """Read how many workers the gateway has restarted."""
    return fleet.gateway.metrics()["paceline_worker_restarts_total"]


async def test_sigterm_completes_the_running_streams() -> None:
    config = {**CONFIG, "server": {"workers": 2, "drain_timeout_s": 20}}
    with running_fleet(1, "--tpot-ms", "20", "--eos-every-tokens", "0", config=config) as fleet:
        requests = [  # all of them take 2 s
            expected_request(number, max_tokens=100, eos_every_tokens=0) for number in range(8)
        ]
        sending = asyncio.create_task(send_all(fleet, requests, name="workers-drain"))
        await asyncio.to_thread(wait_until, lambda: fleet.gateway.num_in_flight == len(requests))
        workers = workers_of(fleet)
        fleet.gateway.process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(wait_until, lambda: not fleet.gateway.accepts_connections())
        assert not sending.done(), "the gateway accepted connections until the last answer ended"
        assert find_errors(fleet, requests, await sending) == []
        assert await asyncio.to_thread(fleet.gateway.process.wait, 60) == 0
        assert not any(worker.is_running() for worker in workers)


async def test_workers_end_when_their_parent_is_killed() -> None:
    with running_fleet(1, "--tpot-ms", "20", config=CONFIG) as fleet:
        workers = workers_of(fleet)
        requests = [expected_request(0)]
        sending = asyncio.create_task(send_all(fleet, requests, name="workers-orphans"))
        await asyncio.to_thread(wait_until, lambda: fleet.gateway.num_in_flight == 1)
        os.kill(fleet.gateway.pid, signal.SIGKILL)
        (transcript,) = await sending
        assert transcript.ending in (Ending.ERROR_EVENT, Ending.REFUSED)
        assert transcript.error is not None
        assert transcript.error["code"] == "server_stopping"
        gone, alive = await asyncio.to_thread(psutil.wait_procs, workers, 5)
        assert (len(gone), alive) == (2, [])
        assert not fleet.gateway.accepts_connections()
