"""Do real clients work with nothing changed but their base URL?

Each client is a script in a process of its own, as its users run it (`sessions/`, `node/`). A
session says what the client made of the answers; the engine says what it was asked. Both are
compared with what was scripted.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from .conftest import Served
from .scripted_engine import CALLS, MODEL, OBJECT, TEXT

HERE = Path(__file__).parent
PACKAGES = HERE.parent.parent / ".clients" / "python"
STEPS = ("plain", "stream", "usage", "tools", "json_schema", "errors", "broken", "cancel")


@dataclass(frozen=True)
class Client:
    """One client and where it differs from the others."""

    command: tuple[str, ...]
    errors: dict[str, list[object]]
    """What it makes of our errors: its class, the status, our code where it keeps it."""
    broken: object = field(default_factory=lambda: ["APIError", None, "engine_unavailable"])
    """What it says of a stream that the engine broke."""
    lists_models: bool = False
    parses_arguments: bool = False
    num_tries_at_fault: int = 1
    """Tries at a 500 of ours, which says that it need not be tried again."""


def python(name: str) -> tuple[str, ...]:
    return (sys.executable, str(HERE / "sessions" / name))


def node(name: str) -> tuple[str, ...]:
    return ("node", str(HERE / "node" / name))


def errors(*classes: str) -> dict[str, list[object]]:
    """Six errors, as a client with these classes shows them."""
    told = (
        ("bad field", 400, "invalid_value"),
        ("bad model", 404, "model_not_found"),
        ("too long", 400, "context_length_exceeded"),
        ("full", 429, "rate_limited"),
        ("fault", 500, "engine_error"),
        ("down", 503, "engine_unavailable"),
    )
    return {
        name: [kind, status, code] for kind, (name, status, code) in zip(classes, told, strict=True)
    }


OPENAI_ERRORS = errors(
    "BadRequestError", "NotFoundError", "BadRequestError",
    "RateLimitError", "InternalServerError", "InternalServerError",
)  # fmt: skip
LANGCHAIN_ERRORS = errors(
    "OpenAIInvalidRequestError", "OpenAIModelNotFoundError", "OpenAIInvalidRequestError",
    "OpenAIRateLimitError", "OpenAIAPIError", "OpenAIAPIError",
)  # fmt: skip
LITELLM_ERRORS = {
    "bad field": ["BadRequestError", 400, "invalid_value"],
    "bad model": ["NotFoundError", 404, None],
    "too long": ["ContextWindowExceededError", 400, None],
    "full": ["RateLimitError", 429, "429"],
    "fault": ["InternalServerError", 500, "engine_error"],
    "down": ["ServiceUnavailableError", 503, None],
}
AI_SDK_ERRORS = errors(
    "APICallError", "APICallError", "APICallError", "RetryError", "RetryError", "RetryError"
)

CLIENTS = {
    "openai-python": Client(python("openai_python.py"), OPENAI_ERRORS, lists_models=True),
    "langchain-openai": Client(
        python("langchain_openai_session.py"), LANGCHAIN_ERRORS, parses_arguments=True
    ),
    "litellm": Client(
        python("litellm_session.py"), LITELLM_ERRORS, ["MidStreamFallbackError", 500, None]
    ),
    "openai-node": Client(node("openai_node.mjs"), OPENAI_ERRORS, lists_models=True),
    "ai-sdk": Client(
        node("ai_sdk.mjs"), AI_SDK_ERRORS, "told", parses_arguments=True, num_tries_at_fault=2
    ),
}


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Client:
    return CLIENTS[request.param]


async def test_a_session(served: Served, client: Client) -> None:
    """One process for all steps: some clients take ten seconds to import."""
    steps = STEPS + (("models",) if client.lists_models else ())
    facts = await run_session(client, f"{served.gateway.url}/v1", MODEL, *steps)
    calls = [[call["id"], call["name"], call["arguments"]] for call in CALLS]
    if client.parses_arguments:
        calls = [[*call[:2], json.loads(call[2])] for call in calls]
    assert facts == {
        "plain": [TEXT, "stop"],
        "stream": [TEXT, "stop", True],
        "usage": [[7, 5], [7, 5], True],
        "tools": [calls, calls, TEXT],
        "json_schema": OBJECT,
        "errors": client.errors,
        "broken": client.broken,
        "cancel": "left",
        **({"models": [[MODEL], MODEL]} if client.lists_models else {}),
    }
    engine = served.engine
    assert engine.call_ids_answered == [[call["id"] for call in CALLS]]
    # Only what may pass is tried again. Every client is told to try once more.
    assert engine.tries["error 400"] == 1
    assert engine.tries["error 429"] == 2
    assert engine.tries["error 500"] == client.num_tries_at_fault
    assert engine.tries["error 503"] >= 2
    await until(lambda: engine.num_aborted == 1)
    await until(lambda: served.gateway.ledger.num_in_flight("r0") == 0)


async def run_session(client: Client, base_url: str, model: str, *steps: str) -> dict[str, Any]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(PACKAGES),
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # else it is fetched from the network
        "LANGSMITH_TRACING": "false",
        "AI_SDK_LOG_WARNINGS": "false",
    }
    process = await asyncio.create_subprocess_exec(
        *client.command, base_url, model, *steps, env=environment,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(60):
            told, complaints = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, complaints.decode()
    return json.loads(told.splitlines()[-1])


async def until(condition: Callable[[], bool], within_s: float = 2.0) -> None:
    """Wait for something that happens soon."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.005)
