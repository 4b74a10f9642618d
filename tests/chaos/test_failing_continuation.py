"""The replica that is to continue a stream fails when it is asked to; poison arrives meanwhile.

A continuation first asks for the text of the tokens that were sent (`/detokenize`), and then for
the rest of the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from chaos.expected_requests import (
    ExpectedRequest,
    expected_request,
    find_errors,
    num_failed_over,
    send_all,
)
from chaos.fleet import Fleet
from chaos.mixed_load.decorated_fleet import POISONER, running_decorated_fleet
from chaos.mixed_load.poison import FAULTS as POISON
from chaos.mixed_load.poison import poisoning
from paceline.testing.mock_vllm import decode

NUM_STREAMS = 12
NUM_POISON_SENDERS = 4
BROKEN_AFTER = 9


@pytest.fixture(scope="module")
def pair() -> Iterator[Fleet]:
    with running_decorated_fleet(2, "--tpot-ms", "4", styles=("",)) as running:
        yield running


def fault(kind: str, route: str, requests: list[ExpectedRequest]) -> list[dict[str, Any]]:
    """The fault at the first request that belongs to a continuation of one of these."""
    if route == "detokenize":
        return [{"kind": kind, "route": route, "times": 1}]
    return [{"kind": kind, "containing": sent_text(one), "times": 1} for one in requests]


def sent_text(request: ExpectedRequest) -> str:
    """What the prompt of a continuation has and that of the request has not."""
    return decode(request.answer.ids[:BROKEN_AFTER]).rstrip("\ufffd")


@pytest.mark.parametrize(
    ("kind", "route"),
    [
        ("die", "detokenize"),
        pytest.param("stall", "detokenize", marks=pytest.mark.slow),  # 10 s for its time limit
        ("die", "generate"),
        ("hang", "generate"),
    ],
)
async def test_a_replica_that_fails_while_it_continues_a_stream_is_replaced(
    pair: Fleet, kind: str, route: str
) -> None:
    """Only the other one can: its connections broke, but it lives."""
    await asyncio.to_thread(pair.restore)
    for replica in (0, 1):
        for one in POISON:
            pair.add_fault(replica, **one)
    requests = [expected_request(number) for number in range(NUM_STREAMS)]
    name = f"{kind}-{route}"
    for one in requests:  # not when it has failed on the other replica, whose fault it would share
        end = decode(one.prompt_ids)
        pair.add_fault(0, kind="reset", after_tokens=BROKEN_AFTER, ending=end, times=1)
    for one in fault(kind, route, requests):
        pair.add_fault(1, **one)
    key = pair.keys[POISONER]
    async with poisoning(pair, key, NUM_POISON_SENDERS, name=f"poison-{name}") as poison:
        transcripts = await send_all(pair, requests, name=name)
    assert find_errors(pair, requests, transcripts) == []
    assert num_failed_over(pair, transcripts) >= 3
    assert poison.errors == []
    if kind == "die":
        assert await asyncio.to_thread(pair.mock_vllms[1].wait) == -9
