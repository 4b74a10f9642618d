"""Two worker processes act as one gateway, which the tests of this file share."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from paceline.runtime.gateway.settings import AdmissionSettings
from paceline.testing.mock_vllm import RequestRecord
from unit.gateway.conftest import chat
from unit.gateway.workers.conftest import workers
from unit.gateway.workers.served import CHAT, Running, connect, most_at_once, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def it(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Running]:
    """Four slots; 10 ms per token."""
    flags = ("--tpot-ms", "10", "--api-key", "s3cret")
    admission = AdmissionSettings(max_in_flight=4)
    async with serving(tmp_path_factory.mktemp("w"), *flags, admission=admission) as running:
        yield running


@pytest.fixture
def num_before(it: Running) -> int:
    """The records of the tests before."""
    return len(it.records())


def new_records(it: Running, num_before: int) -> list[RequestRecord]:
    return it.records()[num_before:]


async def test_each_worker_serves(it: Running) -> None:
    """While one worker is suspended, the other one accepts the connections."""
    num_completed = await it.metric('paceline_requests_total{outcome="completed"}')
    processes = workers()
    assert len(processes) == 2
    for process in processes:
        process.suspend()
        assert await it.send_many(5) == [200] * 5
        process.resume()
    await it.until_completed(int(num_completed) + 10)
    assert [(await it.http.get(path)).status_code for path in ("/health", "/ready")] == [200, 200]


async def test_workers_share_the_slots_of_a_replica(it: Running, num_before: int) -> None:
    """Four slots in all, not four for each worker. Half a second each, so that all are in use."""
    assert await it.send_many(24, max_tokens=50) == [200] * 24
    assert most_at_once(new_records(it, num_before)) == 4


async def test_workers_count_every_choice_of_a_request(it: Running, num_before: int) -> None:
    """Four slots hold two requests with two choices each, wherever they arrive."""
    body = chat(model="known", max_tokens=40, n=2, temperature=1)
    answers = await asyncio.gather(*(it.http.post(CHAT, json=body) for _ in range(12)))
    assert [answer.status_code for answer in answers] == [200] * 12
    assert most_at_once(new_records(it, num_before)) == 2


async def test_a_worker_that_gets_all_requests_uses_all_slots(it: Running, num_before: int) -> None:
    idle, _ = workers()
    idle.suspend()
    connections = [await connect(it.gateway) for _ in range(12)]  # the other one accepts them
    idle.resume()
    body = json.dumps(chat(model="known", max_tokens=50, stream=True)).encode()
    for _, writer in connections:
        writer.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
            b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)
        )
    for reader, writer in connections:
        assert b"data: [DONE]" in await reader.read()
        writer.close()
    assert most_at_once(new_records(it, num_before)) == 4


async def test_the_key_of_a_replica_is_in_no_command_line_or_environment(it: Running) -> None:
    assert await it.send() == 200
    for process in workers():
        assert "s3cret" not in " ".join(process.cmdline())
        assert "s3cret" not in str(process.environ())
