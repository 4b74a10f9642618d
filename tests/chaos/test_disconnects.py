"""When a client disconnects, the replica stops its request and the gateway frees its slot.

The replica's request log has the time at which the request was aborted.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import suppress

import pytest

from chaos.disconnecting import Moment, disconnect_at
from chaos.expected_requests import ExpectedRequest, expected_request, find_errors, send_all
from chaos.fleet import IDLE, Fleet, running_fleet, wait_until

ABORT_WITHIN_S = 30.0
"""Large enough for a busy machine. `make soak` measures it: 99 of 100 within 100 ms."""


@pytest.fixture(scope="module")
def pair() -> Iterator[Fleet]:
    """One replica with four slots, 20 ms per token and a prefill of 40 tokens/s."""
    config = {"admission": {"max_in_flight": 4}}
    flags = ("--tpot-ms", "20", "--prefill-tokens-per-s", "40")
    with running_fleet(1, *flags, config=config) as running:
        yield running


def is_idle(fleet: Fleet) -> bool:
    return fleet.gateway.num_in_flight == 0 and fleet.loads() == [IDLE] * len(fleet.mock_vllms)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "moment", [Moment.IN_PREFILL, Moment.FIRST_TOKEN, Moment.SOME_TOKENS, Moment.LAST_TOKEN]
)
async def test_disconnecting_aborts_the_request(fleet: Fleet, moment: Moment, stream: bool) -> None:
    """Without streaming, the moment is taken from the replica's request log."""
    request_id = f"leaves-{moment.name}-{stream}"
    request = expected_request(0, max_tokens=30, stream=stream)
    left_at_s = await disconnect_at(fleet, request, request_id, moment)
    wait_until(lambda: is_idle(fleet) and bool(fleet.records_of(request_id)))
    fleet.ended_records()
    (record,) = fleet.records_of(request_id)
    assert record.ended_s is not None
    if moment is Moment.LAST_TOKEN:
        assert record.ending in ("finished", "aborted")
    else:
        assert record.ending == "aborted"
    assert record.ended_s - left_at_s < ABORT_WITHIN_S


@pytest.mark.parametrize("stream", [True, False])
async def test_disconnecting_in_the_queue(fleet: Fleet, stream: bool) -> None:
    """The gateway removes the request from its queue and never sends it to a replica."""
    requests = [expected_request(number, max_tokens=120) for number in range(4)]
    sending = asyncio.create_task(send_all(fleet, requests, name=f"a{stream}"))
    await asyncio.to_thread(wait_until, lambda: fleet.gateway.num_in_flight == len(requests))
    queued = expected_request(4, stream=stream)
    await disconnect_at(fleet, queued, f"q{stream}", Moment.QUEUED)
    await asyncio.to_thread(wait_until, lambda: fleet.gateway.queue_length == 0)
    assert find_errors(fleet, requests, await sending) == []
    assert fleet.records_of(f"q{stream}") == []
    wait_until(lambda: is_idle(fleet))


async def test_two_hundred_clients_disconnect_at_random(fleet: Fleet) -> None:
    """Afterwards nothing runs or waits, and the KV cache is empty."""
    rng = random.Random(0)
    moments = [m for m in Moment if m is not Moment.QUEUED]

    async def disconnect(number: int, request: ExpectedRequest) -> None:
        disconnecting = disconnect_at(fleet, request, f"two-hundred-{number}", rng.choice(moments))
        with suppress(TimeoutError):
            await asyncio.wait_for(disconnecting, rng.uniform(0.01, 1.0))

    requests = [
        expected_request(number, max_tokens=30, stream=bool(number % 4)) for number in range(200)
    ]
    await asyncio.gather(*(disconnect(*numbered) for numbered in enumerate(requests)))
    wait_until(lambda: is_idle(fleet))
    assert all(record.ending is not None for record in fleet.ended_records())
