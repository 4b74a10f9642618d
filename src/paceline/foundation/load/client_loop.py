"""The event loop of a load generator."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import uvloop

from paceline.foundation.machine.rare_garbage_collection import rare_garbage_collection


@contextlib.contextmanager
def client_loop() -> Iterator[asyncio.Runner]:
    """A runner whose loop is fast and does not pause: a request must be sent when it is due."""
    with (
        rare_garbage_collection(),
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        yield runner
