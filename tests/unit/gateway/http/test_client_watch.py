"""Work is cancelled when its client leaves, and only then."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from paceline.gateway.http.body import ClientGone
from paceline.gateway.http.client_watch import ClientWatch

pytestmark = pytest.mark.asyncio


class Client:
    """The `receive` of a connection that a test may close."""

    def __init__(self) -> None:
        self.has_left = asyncio.Event()
        self._has_sent_rest = False

    async def __call__(self) -> dict[str, Any]:
        if not self._has_sent_rest:
            self._has_sent_rest = True
            return {"type": "http.request", "body": b""}
        await self.has_left.wait()
        return {"type": "http.disconnect"}


async def test_work_for_a_client_that_stays_completes() -> None:
    async with ClientWatch(Client()):
        await asyncio.sleep(0.01)


async def test_work_ends_when_the_client_leaves() -> None:
    client = Client()
    asyncio.get_running_loop().call_later(0.01, client.has_left.set)
    with pytest.raises(ClientGone):
        async with ClientWatch(client):
            await asyncio.sleep(30)
    await asyncio.sleep(0)  # nothing of the cancellation is left


async def test_a_cancellation_from_elsewhere_stays_one() -> None:
    async def work() -> None:
        async with ClientWatch(Client()):
            await asyncio.sleep(30)

    task = asyncio.create_task(work())
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_of_the_work_passes_and_no_task_is_left() -> None:
    num_before = len(asyncio.all_tasks())
    with pytest.raises(ZeroDivisionError):
        async with ClientWatch(Client()):
            _ = 1 / 0
    assert len(asyncio.all_tasks()) == num_before
