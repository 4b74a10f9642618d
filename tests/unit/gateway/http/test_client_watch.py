"""Work is cancelled when its client leaves, and only then."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from polling import turns_of_the_event_loop

from paceline.runtime.gateway.http.body import ClientGone
from paceline.runtime.gateway.http.client_watch import ClientWatch
from paceline.runtime.gateway.http.errors import Refusal
from paceline.runtime.gateway.requests.deadline import Deadline

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
        await turns_of_the_event_loop()


async def test_work_ends_when_the_client_leaves() -> None:
    client = Client()

    async def work() -> None:
        async with ClientWatch(client):
            await turns_of_the_event_loop()
            client.has_left.set()
            await asyncio.Event().wait()

    with pytest.raises(ClientGone):
        await work()
    await asyncio.sleep(0)  # nothing of the cancellation is left


async def test_a_cancellation_from_elsewhere_stays_one() -> None:
    async def work() -> None:
        async with ClientWatch(Client()):
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await turns_of_the_event_loop()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_of_the_work_passes_and_no_task_is_left() -> None:
    num_before = len(asyncio.all_tasks())
    with pytest.raises(ZeroDivisionError):
        async with ClientWatch(Client()):
            _ = 1 / 0
    assert len(asyncio.all_tasks()) == num_before


async def test_a_cancellation_counts_more_than_a_client_that_leaves() -> None:
    """Both happen before the task runs again."""
    client = Client()

    async def work() -> None:
        async with ClientWatch(client):
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await turns_of_the_event_loop()
    client.has_left.set()
    await asyncio.sleep(0)
    task.cancel()
    assert task.cancelling() == 2
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("has_left", [True, False])
async def test_a_deadline_that_ends_the_work_counts_less_than_a_client_that_leaves(
    has_left: bool,
) -> None:
    client = Client()
    if has_left:
        client.has_left.set()
    with pytest.raises(ClientGone if has_left else Refusal):
        async with ClientWatch(client), Deadline(0.0):
            await asyncio.Event().wait()
    await asyncio.sleep(0)  # nothing of the cancellations is left


async def test_no_reference_cycle_is_left() -> None:
    """A cycle would keep the request's head and connection until a garbage collection."""

    async def work() -> None:
        async with ClientWatch(Client()):
            await asyncio.sleep(0)

    await asyncio.create_task(work())
    gc.collect()
    gc.disable()
    try:
        for _ in range(10):
            await asyncio.create_task(work())
        assert gc.collect() == 0
    finally:
        gc.enable()
