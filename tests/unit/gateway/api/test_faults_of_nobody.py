"""Faults of the request and of the gateway itself are not counted against replicas."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from paceline.runtime.gateway.routing.breaker import BreakerState
from paceline.runtime.gateway.settings import FailureSettings
from unit.gateway.conftest import Serve, chat, until

pytestmark = pytest.mark.asyncio(loop_scope="module")
CHAT = "/v1/chat/completions"
TWICE = FailureSettings(max_attempts=3, replica_wait_s=0.1, min_samples=2)


async def test_a_whole_answer_that_takes_too_long_is_the_requests_fault(serve: Serve) -> None:
    """It is not repeated, and does not count against the replica.

    On a busy machine the time may be over before the engine has read a request.
    """
    async with serve(response_timeout_s=0.1, failures=TWICE) as served:
        served.source.current = [replace(served.replicas[0], name=name) for name in ("r0", "r1")]
        served.engine.mode = "hang"
        for _ in range(3):
            answer = await served.http.post(CHAT, json=chat())
            assert (answer.status_code, answer.headers["x-should-retry"]) == (504, "false")
            assert answer.json()["error"]["code"] == "answer_timeout"
        await until(lambda: served.engine.num_aborted == served.engine.num_begun)
        assert served.engine.num_begun <= 3
        assert await served.outcomes() == {"too_slow": 3}
        assert set(served.gateway.traffic.breaker_states().values()) == {BreakerState.CLOSED}


async def test_a_whole_answer_that_is_too_long_is_the_requests_fault(serve: Serve) -> None:
    async with serve(max_response_bytes=1000, failures=TWICE) as served:
        served.source.current = [replace(served.replicas[0], name=name) for name in ("r0", "r1")]
        served.engine.tokens = ["x" * 2000]
        for _ in range(3):
            answer = await served.http.post(CHAT, json=chat())
            assert answer.status_code == 400
            assert answer.json()["error"]["code"] == "answer_too_large"
        assert served.engine.num_begun == 3
        assert await served.outcomes() == {"too_large": 3}
        assert set(served.gateway.traffic.breaker_states().values()) == {BreakerState.CLOSED}


async def test_a_request_that_cannot_be_sent_waits_and_opens_no_breaker(serve: Serve) -> None:
    async with serve() as served:
        served.source.current = [replace(served.replicas[0], address="http://replica.invalid:1")]
        answer = await served.http.post(CHAT, json=chat())
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert await served.outcomes() == {"not_sent": 1}
        assert set(served.gateway.traffic.breaker_states().values()) == {BreakerState.CLOSED}


async def test_a_request_that_could_not_be_sent_is_sent_once_that_is_possible(serve: Serve) -> None:
    failures = FailureSettings(max_attempts=1, replica_wait_s=5)
    async with serve(failures=failures) as served:
        served.source.current = [replace(served.replicas[0], address="http://replica.invalid:1")]
        sending = asyncio.create_task(served.http.post(CHAT, json=chat()))
        await until(lambda: bool(served.gateway.traffic.breaker_states()))
        served.source.current = served.replicas
        assert (await sending).status_code == 200
