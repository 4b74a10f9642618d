"""The route /admin/governor of the mock server, over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from paceline.testing.mock_vllm import MockVllm, MockVllmSettings
from paceline.testing.mock_vllm.model.speculation import Speculation

PAGE = "/admin/governor"


@pytest_asyncio.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    settings = MockVllmSettings(speculation=Speculation(2, (0.9, 0.5)))
    async with (
        MockVllm(settings) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as client,
    ):
        yield client


async def _state(http: httpx.AsyncClient) -> dict[str, object]:
    return dict((await http.get(PAGE)).json()["replicas"]["mock"])


async def test_a_draft_length_is_shown_and_set(http: httpx.AsyncClient) -> None:
    fixed = {"policy": "fixed", "max_draft_length": 2}
    two, none = ({"draft_length": n, "policy_parameters": {"draft_length": n}} for n in (2, 0))
    assert await _state(http) == {**fixed, **two}
    changed = await http.patch(PAGE, json={"draft_length": 0})
    assert changed.json()["replicas"]["mock"]["draft_length"] == 0
    assert await _state(http) == {**fixed, **none}


@pytest.mark.parametrize(
    "body", [{}, {"draft_length": 3}, {"draft_length": True}, {"policy": "latency"}]
)
async def test_other_changes_are_refused_and_change_nothing(
    http: httpx.AsyncClient, body: dict[str, object]
) -> None:
    answer = await http.patch(PAGE, json=body)
    assert answer.status_code == 400
    assert "draft_length from 0 to 2" in answer.text
    assert (await _state(http))["draft_length"] == 2


async def test_a_server_without_speculation_has_no_governor() -> None:
    async with MockVllm() as server, httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        assert (await client.get(PAGE)).status_code == 404
