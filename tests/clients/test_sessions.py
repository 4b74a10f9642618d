"""Real clients work with the gateway when only their base URL is changed.

Each client is a script in a process of its own, as its users run it (`sessions/`, `node/`). The
tests compare what the client returned, and what the engine received, with the script.
"""

from __future__ import annotations

import json

import pytest
from polling import until

from clients.conftest import Served
from clients.real_clients import CLIENTS, Client, run_session
from clients.scripted_engine import CALLS, MODEL, OBJECT, TEXT, USAGE

STEPS = (
    "plain",
    "stream",
    "usage",
    "tools",
    "forced_tool",
    "json_schema",
    "errors",
    "broken",
    "cancel",
)


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Client:
    return CLIENTS[request.param]


async def test_a_session_gives_the_expected_results(served: Served, client: Client) -> None:
    """One process runs all steps, since some clients take ten seconds to import."""
    steps = STEPS + (("models",) if client.lists_models else ())
    results = await run_session(client, f"{served.gateway.url}/v1", MODEL, served.key, *steps)
    calls = [[call["id"], call["name"], call["arguments"]] for call in CALLS]
    if client.parses_arguments:
        calls = [[*call[:2], json.loads(call[2])] for call in calls]
    assert results == {
        "plain": [TEXT, "stop" if client.shows_finish_reason else None],
        "stream": [TEXT, "stop" if client.shows_finish_reason_of_streams else None, True],
        "usage": [[*USAGE], [*USAGE], True],
        "tools": [calls, calls, TEXT],
        "forced_tool": [calls, calls],
        "json_schema": OBJECT,
        "errors": client.errors,
        "broken": client.broken,
        "cancel": "cancelled",
        **({"models": [[MODEL], MODEL]} if client.lists_models else {}),
    }
    engine = served.engine
    assert engine.call_ids_answered == [[*client.sent_call_ids]] * client.num_tool_answers
    # Clients retry only errors that may be temporary. Each is configured for one retry.
    assert engine.tries["error 400"] == 1
    assert engine.tries["error 429"] == 2
    assert engine.tries["error 500"] == client.num_attempts_at_500
    assert engine.tries["error 503"] >= 2
    await until(lambda: engine.num_aborted == 1)
    await until(lambda: served.gateway.traffic.num_in_flight("r0") == 0)
