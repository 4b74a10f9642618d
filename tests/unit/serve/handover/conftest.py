"""Fixtures of the hand-over's tests: a short folder, and a remote replica."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from unit.engine.process.reaping import children_reaped
from unit.gateway.fleet.fake_remote import FakeRemote

__all__ = ["children_reaped"]


@pytest.fixture(autouse=True)
def garbage_collection() -> Iterator[None]:
    """Each server restores what it has found: of two in one process, the first one's settings."""
    before = gc.get_threshold()
    yield
    gc.unfreeze()
    gc.set_threshold(*before)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short path, because the paths of Unix sockets are limited."""
    return tmp_path_factory.mktemp("s")


@pytest_asyncio.fixture
async def remote() -> AsyncIterator[FakeRemote]:
    async with FakeRemote() as running:
        yield running
