"""`paceline serve` with the real engine: it serves, restarts killed engines, and ends cleanly.

The server is shared with `test_tenants.py`, which comes first. The tests run in order; one of them
kills the server.
"""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest
from chaos.engines import is_alive

from engine.serving.paceline_server import (
    GONE_WITHIN_S,
    MODEL,
    READY_WITHIN_S,
    Serving,
    assert_gone,
    start,
)

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "def f(x):"}], "max_tokens": 8}
COMPLETION = {"model": MODEL, "prompt": "def f(x):\n", "max_tokens": 8, "temperature": 0}


def test_answers_chat_and_completion(serving: Serving) -> None:
    chat = serving.post("/v1/chat/completions", CHAT)
    assert chat.status_code == 200, chat.text
    assert chat.json()["usage"]["completion_tokens"] >= 1
    completion = serving.post("/v1/completions", COMPLETION)
    assert completion.status_code == 200, completion.text
    assert (
        serving.post("/v1/completions", COMPLETION).json()["choices"]
        == (completion.json()["choices"])
    )


def test_json_of_a_small_model_ends(serving: Serving) -> None:
    """White space without end is the model's likeliest answer where the grammar allows it."""
    schema = {
        "type": "object",
        "properties": {"ready": {"type": "boolean"}},
        "required": ["ready"],
        "additionalProperties": False,
    }
    for seed in range(4):
        answer = serving.post(
            "/v1/chat/completions",
            {
                **CHAT,
                "max_tokens": 48,
                "temperature": 1,
                "seed": seed,
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "status", "schema": schema},
                },
            },
        )
        (choice,) = answer.json()["choices"]
        assert choice["finish_reason"] == "stop", choice
        assert set(json.loads(choice["message"]["content"])) == {"ready"}


def test_the_governor_governs_the_bundled_draft(serving: Serving) -> None:
    (state,) = serving.admin.get("/admin/governor", headers=serving.ops).json()["replicas"].values()
    assert state["method"] == "draft_model"
    assert state["max_draft_length"] == 8
    assert set(state["seams"].values()) == {"ok"}


def test_restarts_an_engine_that_was_killed(serving: Serving) -> None:
    """The engine core alone, of the only engine: 503 while down, then back.

    `test_continuation.py` kills parts of one of two, in `make test-slow`.
    """
    before = serving.server.descendants()
    os.kill(serving.process("^VLLM::EngineCore"), signal.SIGKILL)
    down = serving.wait_status(503, within_s=GONE_WITHIN_S)
    assert int(down.headers["retry-after"]) >= 1
    refused = serving.post("/v1/completions", COMPLETION)
    assert refused.status_code == 503, refused.text
    assert int(refused.headers["retry-after"]) >= 1
    assert serving.http.get("/health").status_code == 200
    serving.wait_status(200, within_s=READY_WITHIN_S)
    assert serving.post("/v1/completions", COMPLETION).status_code == 200
    assert_gone({pid: name for pid, name in before.items() if "vllm" in name.lower()})


def test_another_server_takes_the_engine_over_without_a_restart(
    serving: Serving, tmp_path: Path
) -> None:
    """The new one is killed in the next test."""
    old = serving.server
    engine = old.engine_processes()
    changed = serving.admin.patch("/admin/governor", json={"ceiling": 5}, headers=serving.ops)
    assert changed.status_code == 200, changed.text
    ports = [str(client.base_url.port) for client in (serving.http, serving.admin)]
    config = ("--config", str(old.errors.with_name("paceline.yaml")))
    new = start(tmp_path, *config, "--take-over", "--port", ports[0], "--admin-port", ports[1])
    assert ports[0] in new.first_line(), new.errors.read_text()
    serving.server = replace(new, adopted=engine)
    assert old.process.wait(GONE_WITHIN_S) == 0
    assert serving.post("/v1/completions", COMPLETION).status_code == 200
    assert all(is_alive(pid) for pid in engine)
    (replica,) = serving.admin.get("/admin/replicas", headers=serving.ops).json()["replicas"]
    assert (replica["state"], replica["name"]) == ("ready", "engine-0")
    (governor,) = (
        serving.admin.get("/admin/governor", headers=serving.ops).json()["replicas"].values()
    )
    assert governor["ceiling"] == 5


def test_killing_paceline_and_its_guard_leaves_no_engine(serving: Serving) -> None:
    """Without any process left to stop them, the engine's processes end by themselves."""
    processes = serving.server.descendants()
    assert any("EngineCore" in name for name in processes.values())
    (guard,) = (
        pid for pid, name in processes.items() if "paceline.runtime.engine.process.guard" in name
    )
    os.kill(serving.server.process.pid, signal.SIGKILL)
    os.kill(guard, signal.SIGKILL)
    assert_gone(processes)


CORE, API_SERVER = "EngineCore", "vllm.entrypoints"
"""Commands of vLLM's processes, in which they can be seen while the engine starts."""


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        pytest.param(API_SERVER, signal.SIGTERM, id="importing-SIGTERM"),
        pytest.param(CORE, signal.SIGTERM, marks=pytest.mark.slow, id="core-SIGTERM"),
        pytest.param(CORE, signal.SIGKILL, marks=pytest.mark.slow, id="core-SIGKILL"),
    ],
)
def test_ending_while_the_engine_starts_leaves_nothing(
    tmp_path: Path, moment: str, number: signal.Signals
) -> None:
    """While vLLM is imported; in `make test-slow` also once the engine core has been started.

    `unit/engine/process/test_supervisor.py` has an engine whose child is in another session.
    """
    server = start(tmp_path)
    try:
        deadline_s = time.monotonic() + READY_WITHIN_S
        while not server.runs(moment):
            assert server.process.poll() is None, server.errors.read_text()
            assert time.monotonic() < deadline_s, f"no process with {moment} was started"
            # sleep: the pause between two looks decides nothing
            time.sleep(0.1)
        processes = server.descendants()
        server.process.send_signal(number)
        ended = server.process.wait(timeout=GONE_WITHIN_S)
    finally:
        server.process.kill()  # it still runs only if the test has failed
    assert ended == (0 if number == signal.SIGTERM else -signal.SIGKILL)
    assert_gone(processes)


@pytest.mark.slow
def test_an_engine_that_cannot_start_ends_the_server_with_its_error(tmp_path: Path) -> None:
    server = start(tmp_path, "--", "--max-model-len", "1000000000")
    assert server.process.wait(timeout=READY_WITHIN_S) == 1
    said = server.errors.read_text()
    assert "max_model_len" in said
    assert str(server.log) in said
