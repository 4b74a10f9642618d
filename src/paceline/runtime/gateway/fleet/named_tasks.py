"""Ownership of the fleet's background tasks, one per name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

logger = logging.getLogger(__name__)


class NamedTasks:
    """Background tasks by name. A task that raises is logged."""

    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Start a task. The name must have no running task: `stop` that one first."""
        task = asyncio.create_task(work, name=f"fleet: {name}")
        self._tasks[name] = task
        task.add_done_callback(lambda ended: self._ended(name, ended))

    def stop(self, name: str) -> None:
        """Cancel the task of this name, if there is one. Does not wait for its end."""
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()

    async def stop_all(self) -> None:
        """Cancel all tasks and wait for their end."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(name) is task:
            del self._tasks[name]
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("fleet task %r failed", name, exc_info=error)
