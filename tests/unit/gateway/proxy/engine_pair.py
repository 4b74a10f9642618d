"""`pair`: a gateway over two fake engines, and one client."""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from paceline.runtime.gateway import Replica, RunningGateway, serve_gateway
from paceline.runtime.gateway.settings import FailureSettings
from unit.gateway.conftest import SETTINGS, FixedReplicas, chat
from unit.gateway.fake_engine import MODEL, FakeEngine

FAILURES = FailureSettings(replica_wait_s=0.3)
CHAT = "/v1/chat/completions"


@dataclass
class Pair:
    gateway: RunningGateway
    one: FakeEngine
    two: FakeEngine
    source: FixedReplicas
    http: httpx.AsyncClient

    async def count(self, metric: str) -> float:
        """A value of the metrics page, given with its labels."""
        async with httpx.AsyncClient(base_url=self.gateway.admin_url, timeout=60) as admin:
            lines = (await admin.get("/metrics")).text.splitlines()
        (value,) = (line.removeprefix(metric) for line in lines if line.startswith(f"{metric} "))
        return float(value)

    def breaker(self, name: str) -> str:
        return str(self.gateway.traffic.breaker_states().get(name, "closed"))


@asynccontextmanager
async def pair(failures: FailureSettings = FAILURES, **changes: Any) -> AsyncIterator[Pair]:
    """r0 is `one`, which is chosen first, and r1 is `two`."""
    with tempfile.TemporaryDirectory() as folder:
        one, two = (FakeEngine(Path(folder) / f"{name}.sock") for name in ("one", "two"))
        replicas = [
            Replica(f"r{i}", str(engine.socket), MODEL, "ready", max_model_len=2048)
            for i, engine in enumerate((one, two))
        ]
        source = FixedReplicas(replicas)
        async with (
            one,
            two,
            serve_gateway(replace(SETTINGS, failures=failures, **changes), source) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=60) as http,
        ):
            yield Pair(gateway, one, two, source, http)


def sse(*chunks: dict[str, Any] | str) -> bytes:
    lines = [c if isinstance(c, str) else json.dumps(c, separators=(",", ":")) for c in chunks]
    return b"".join(
        (line if line.startswith(":") else f"data: {line}").encode() + b"\n\n" for line in lines
    )


def delta(text: str | None, ids: list[int] | None, finish: str | None = None) -> dict[str, Any]:
    content = {} if text is None else {"content": text}
    choice = {"index": 0, "delta": content, "finish_reason": finish, "token_ids": ids}
    return {"id": "c1", "object": "x", "created": 1, "model": MODEL, "choices": [choice]}


ROLE = {**delta("", None), "prompt_token_ids": [1, 2]}


async def ask(pair: Pair, **changes: Any) -> httpx.Response:
    return await pair.http.post(CHAT, json=chat(stream=True, max_tokens=9, **changes))
