"""The deployments, each started once for all tests of a module, in virtual time.

What a check finds depends on how long answers take, and how soon gauges show them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from unit.bench.trace.virtual_time import (
    clocks_of_the_event_loop,
    pytest_asyncio_loop_factories,
)
from unit.validate.deployments import RunningDeployment, running

__all__ = ["clocks_of_the_event_loop", "pytest_asyncio_loop_factories"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def plain() -> AsyncIterator[RunningDeployment]:
    async with running("plain") as deployment:
        yield deployment


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def drafting() -> AsyncIterator[RunningDeployment]:
    async with running("drafting") as deployment:
        yield deployment


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway() -> AsyncIterator[RunningDeployment]:
    async with running("gateway") as deployment:
        yield deployment
