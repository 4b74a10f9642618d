"""Prompts that pass a gateway in front of the mock server are captured, shown and deleted."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from paceline.runtime.gateway import Replica, serve_gateway
from paceline.runtime.gateway.settings import CaptureSettings
from paceline.testing.mock_vllm import MockVllm, MockVllmSettings
from unit.gateway.conftest import SETTINGS, FixedReplicas

pytestmark = pytest.mark.asyncio

MODEL = "m"
MOCK = MockVllmSettings(model=MODEL, tpot_ms=0.1, prefill_tokens_per_s=1e6, max_model_len=512)


@asynccontextmanager
async def capturing(**settings: Any) -> AsyncIterator[tuple[httpx.AsyncClient, httpx.AsyncClient]]:
    """Clients of both ports. Everything offered is written when the block has ended."""
    async with MockVllm(MOCK) as mock:
        replicas = [Replica("r0", mock.url, MODEL, "ready", max_model_len=512)]
        async with (
            serve_gateway(
                replace(SETTINGS, capture=CaptureSettings(**settings)), FixedReplicas(replicas)
            ) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=60) as http,
            httpx.AsyncClient(base_url=gateway.admin_url, timeout=60) as admin,
        ):
            yield http, admin


def lines(folder: Path) -> list[dict[str, Any]]:
    text = "".join(path.read_text() for path in sorted(folder.glob("*.jsonl")))
    return [json.loads(line) for line in text.splitlines()]


async def send(http: httpx.AsyncClient, content: str, **fields: Any) -> httpx.Response:
    messages = [{"role": "user", "content": content}]
    body = {"model": MODEL, "messages": messages, "max_tokens": 4, **fields}
    return await http.post("/v1/chat/completions", json=body)


def streamed_text(answer: httpx.Response) -> str:
    chunks = [json.loads(line[6:]) for line in answer.text.split("\n") if "data: {" in line]
    return "".join(c["delta"].get("content") or "" for x in chunks for c in x["choices"])


async def test_prompts_and_answers_are_kept_as_the_client_got_them(tmp_path: Path) -> None:
    async with capturing(folder=tmp_path, share=1.0, answers=True) as (http, _):
        whole = await send(http, "whole", temperature=0)
        stream = await send(http, "streamed", stream=True)
        refused = await send(http, "refused", max_tokens=-1)
        assert refused.status_code == 400
    first, second = lines(tmp_path)
    assert first["messages"] == [{"role": "user", "content": "whole"}]
    assert (first["model"], first["category"]) == (MODEL, "greedy")
    assert first["answer"] == whole.json()["choices"][0]["message"]["content"]
    assert second["messages"] == [{"role": "user", "content": "streamed"}]
    assert second["answer"] == streamed_text(stream)
    assert set(first) == {"at", "model", "category", "messages", "answer"}


async def test_nothing_is_kept_by_default(tmp_path: Path) -> None:
    async with capturing() as (http, admin):
        await send(http, "private")
        assert (await admin.get("/admin/capture")).json() == {"capturing": False}
        refused = await admin.delete("/admin/capture")
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "capture_refused")
    assert os.listdir(tmp_path) == []


async def test_what_is_kept_is_shown_counted_and_deleted(tmp_path: Path) -> None:
    async with capturing(folder=tmp_path, share=1.0) as (http, admin):
        await send(http, "one")
        page = ""
        while 'paceline_captured_requests_total{result="written"} 1.0' not in page:
            page = (await admin.get("/metrics")).text
        assert 'paceline_captured_requests_total{result="queue_full"} 0.0' in page
        shown = (await admin.get("/admin/capture")).json()
        assert (shown["capturing"], shown["num_files"]) == (True, 1)
        assert shown["bytes"] > 0
        deleted = (await admin.delete("/admin/capture")).json()
        assert deleted == {"num_files_deleted": 1, "bytes_deleted": shown["bytes"]}
        assert os.listdir(tmp_path) == []
        await send(http, "two")
    assert [line["messages"][0]["content"] for line in lines(tmp_path)] == ["two"]
