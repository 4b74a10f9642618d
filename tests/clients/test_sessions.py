"""Do real clients work with nothing changed but their base URL?

Each client is a script in a process of its own, as its users run it (`sessions/`, `node/`). A
session says what the client made of the answers; the engine says what it was asked. Both are
compared with what was scripted.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from clients.conftest import Served
from clients.real_clients import CLIENTS, Client, run_session
from clients.scripted_engine import CALLS, MODEL, OBJECT, TEXT

STEPS = ("plain", "stream", "usage", "tools", "json_schema", "errors", "broken", "cancel")


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Client:
    return CLIENTS[request.param]


async def test_a_session(served: Served, client: Client) -> None:
    """One process for all steps: some clients take ten seconds to import."""
    steps = STEPS + (("models",) if client.lists_models else ())
    facts = await run_session(client, f"{served.gateway.url}/v1", MODEL, served.key, *steps)
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


async def until(condition: Callable[[], bool], within_s: float = 2.0) -> None:
    """Wait for something that happens soon."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.005)
