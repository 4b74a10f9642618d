"""The deployments, each started once for all tests of a module."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from unit.validate.deployments import RunningDeployment, running


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
