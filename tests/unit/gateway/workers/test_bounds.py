"""Bounds that hold over all workers: bodies that any of them serves, and requests in a circle."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from paceline.runtime.gateway import GatewaySettings
from unit.gateway.conftest import chat
from unit.gateway.workers.served import CHAT, serving

MIB = 1024 * 1024
JSON = {"content-type": "application/json"}


def body_of(num_bytes: int) -> bytes:
    """A short prompt in a long body, which the mock server computes at once."""
    return json.dumps(chat(model="known", max_tokens=1)).encode().ljust(num_bytes)


@pytest.mark.parametrize("num_workers", [2, 4])
async def test_each_worker_of_an_idle_gateway_serves_every_body_that_is_allowed(
    tmp_path: Path, num_workers: int
) -> None:
    """A worker's part of the budget is less than such a body needs. Each request has a connection
    of its own, so some worker gets it."""
    async with serving(
        tmp_path,
        workers=num_workers,
        max_buffered_bytes=num_workers * 4 * MIB,
        max_body_bytes=8 * MIB,
    ) as it:
        for num_bytes in (2 * MIB, 8 * MIB - 1000, 2 * MIB):
            answer = await it.http.post(CHAT, content=body_of(num_bytes), headers=JSON)
            assert answer.status_code == 200, answer.text


def test_a_budget_that_its_workers_cannot_divide_is_refused() -> None:
    assert GatewaySettings(workers=4, max_buffered_bytes=16 * MIB)
    with pytest.raises(ValueError, match="with 16 workers, which divide it, it must be at least"):
        GatewaySettings(workers=16, max_buffered_bytes=16 * MIB)
    assert replace(GatewaySettings(), workers=64)


async def test_all_workers_know_the_gateway_they_belong_to(tmp_path: Path) -> None:
    async with serving(tmp_path) as it:
        body = {"url": it.gateway.url, "name": "me"}
        assert (await it.admin.post("/admin/replicas", json=body)).status_code == 201
        async with asyncio.timeout(60):
            while True:
                listed = (await it.admin.get("/admin/replicas")).json()["replicas"]
                me = next(one for one in listed if one["name"] == "me")
                if me["state"] == "down":
                    break
        assert "leads back to this gateway" in me["reason"]
        answers = [await it.http.get("/ready") for _ in range(10)]
        assert {answer.status_code for answer in answers} == {200}


async def test_workers_get_names_and_numbers_of_any_allowed_size(tmp_path: Path) -> None:
    async with serving(tmp_path) as it:
        for port in range(1, 101):
            body = {
                "url": f"http://127.0.0.1:{port}",
                "name": f"r{port}-" + "n" * 90,
                "model": "\N{GRINNING FACE}" * 256,
                "key": "k" * 4096,
                "max_in_flight": 1_000_000,
                "max_tokens_in_flight": 10**12,
            }
            assert (await it.admin.post("/admin/replicas", json=body)).status_code == 201
        assert await it.send_many(4) == [200] * 4
        metrics = (await it.admin.get("/metrics")).text
        assert metrics.count("paceline_replica_state{") == 101
