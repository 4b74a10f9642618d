"""Fixtures: headless Chromium for a whole file, a tab and a gateway for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from unit.gateway.conftest import Serve, start_gateway

from browser.chromium import Chromium, Page, running_chromium
from browser.chromium_program import find_chromium


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Chromium]:
    async with running_chromium(find_chromium(), tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest_asyncio.fixture(loop_scope="module")
async def page(chromium: Chromium) -> AsyncIterator[Page]:
    async with chromium.page() as tab:
        yield tab


@pytest.fixture
def serve() -> Serve:
    return start_gateway
