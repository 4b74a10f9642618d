"""Ownership of background tasks."""

from __future__ import annotations

import asyncio

import pytest

from paceline.runtime.gateway.fleet.named_tasks import NamedTasks


async def wait_forever(cancelled: list[str], name: str) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        cancelled.append(name)


async def test_stop_cancels_only_the_named_task() -> None:
    tasks, cancelled = NamedTasks(), []
    for name in ("a", "b"):
        tasks.start(name, wait_forever(cancelled, name))
    await asyncio.sleep(0)
    tasks.stop("a")
    tasks.stop("unknown")
    await asyncio.sleep(0)
    assert cancelled == ["a"]
    await tasks.stop_all()
    assert cancelled == ["a", "b"]


async def test_a_task_that_raises_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise RuntimeError("broken pipe in a test")

    tasks = NamedTasks()
    tasks.start("a", fail())
    for _ in range(3):
        await asyncio.sleep(0)
    assert "fleet task 'a' failed" in caplog.text
    assert "broken pipe in a test" in caplog.text
