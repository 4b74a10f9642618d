"""`paceline serve` with the real engine: it serves, restarts killed engines, and ends cleanly.

One server for the whole module, since each start of vLLM takes some 20 s. The tests run in order;
one of them kills the server.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from chaos.engines import is_alive, processes_below

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

# A start takes 25 s on two idle cores, and took four times that on busy ones.
READY_WITHIN_S = 400.0
GONE_WITHIN_S = 60.0
MODEL = "paceline-demo"
CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "def f(x):"}], "max_tokens": 8}
COMPLETION = {"model": MODEL, "prompt": "def f(x):\n", "max_tokens": 8, "temperature": 0}


@dataclass(frozen=True, slots=True)
class Server:
    """`paceline serve`, as a user starts it."""

    process: subprocess.Popen[str]
    log: Path
    """The engine's log."""

    def first_line(self) -> str:
        """The line it prints once it serves; blocks until then."""
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def descendants(self) -> dict[int, str]:
        """Process id to command of every process below it."""
        return processes_below(self.process.pid)


def start(folder: Path, *arguments: str) -> Server:
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", "from paceline.cli import main; main()"),
            *("serve", "--port", "0", "--admin-port", "0", *arguments),
        ],
        stdout=subprocess.PIPE,
        stderr=(folder / "stderr").open("w"),
        text=True,
        env={**os.environ, "PACELINE_ENGINE__LOG_FOLDER": str(folder)},
        cwd=folder,
    )
    return Server(process, folder / "engine-0.log")


def assert_gone(pids: dict[int, str]) -> None:
    deadline_s = time.monotonic() + GONE_WITHIN_S
    while left := {pid: name for pid, name in pids.items() if is_alive(pid)}:
        assert time.monotonic() < deadline_s, f"still there: {left}"
        time.sleep(0.05)


@dataclass(frozen=True, slots=True)
class Serving:
    """The server of the module and its two addresses."""

    server: Server
    url: str
    admin_url: str

    def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        return httpx.post(self.url + path, json=body, timeout=60)

    def process(self, command: str) -> int:
        (pid,) = (
            pid for pid, name in self.server.descendants().items() if re.search(command, name)
        )
        return pid

    def wait_status(self, expected: int, within_s: float) -> httpx.Response:
        deadline_s = time.monotonic() + within_s
        while (answer := httpx.get(f"{self.url}/ready", timeout=30)).status_code != expected:
            assert time.monotonic() < deadline_s, f"/ready still says {answer.status_code}"
            time.sleep(0.05)
        return answer


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("serve")
    server = start(folder)
    try:
        line = server.first_line()
        found = re.search(r"serving paceline-demo on (\S+) \(admin (\S+)\)", line)
        assert found, f"{line}{(folder / 'stderr').read_text()}"
        yield Serving(server, found[1], found[2])
    finally:
        server.process.kill()
        server.process.wait()


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


def test_the_governor_governs_the_bundled_draft(serving: Serving) -> None:
    (state,) = httpx.get(f"{serving.admin_url}/admin/governor").json()["replicas"].values()
    assert state["method"] == "draft_model"
    assert state["max_draft_length"] == 8
    assert set(state["seams"].values()) == {"ok"}


@pytest.mark.parametrize("victim", ["^VLLM::EngineCore", r"^\S+ -m vllm\.entrypoints"])
def test_restarts_an_engine_that_was_killed(serving: Serving, victim: str) -> None:
    """The engine core alone, then the API server alone: 503 while down, then back."""
    before = serving.server.descendants()
    os.kill(serving.process(victim), signal.SIGKILL)
    down = serving.wait_status(503, within_s=GONE_WITHIN_S)
    assert int(down.headers["retry-after"]) >= 1
    refused = serving.post("/v1/completions", COMPLETION)
    assert refused.status_code == 503, refused.text
    assert int(refused.headers["retry-after"]) >= 1
    assert httpx.get(f"{serving.url}/health").status_code == 200
    serving.wait_status(200, within_s=READY_WITHIN_S)
    assert serving.post("/v1/completions", COMPLETION).status_code == 200
    assert_gone({pid: name for pid, name in before.items() if "vllm" in name.lower()})


def test_killing_paceline_and_its_guard_leaves_no_engine(serving: Serving) -> None:
    """Without any process left to stop them, the engine's processes end by themselves."""
    processes = serving.server.descendants()
    assert any("EngineCore" in name for name in processes.values())
    (guard,) = (pid for pid, name in processes.items() if "paceline.engine.process.guard" in name)
    os.kill(serving.server.process.pid, signal.SIGKILL)
    os.kill(guard, signal.SIGKILL)
    assert_gone(processes)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_ending_while_the_engine_starts_leaves_nothing(
    tmp_path: Path, number: signal.Signals
) -> None:
    server = start(tmp_path)
    try:
        deadline_s = time.monotonic() + READY_WITHIN_S
        while not any("EngineCore" in name for name in server.descendants().values()):
            assert server.process.poll() is None, (tmp_path / "stderr").read_text()
            assert time.monotonic() < deadline_s, "no engine core was started"
            time.sleep(0.1)
        processes = server.descendants()
        server.process.send_signal(number)
        ended = server.process.wait(timeout=GONE_WITHIN_S)
    finally:
        server.process.kill()  # it still runs only if the test has failed
    assert ended == (0 if number == signal.SIGTERM else -signal.SIGKILL)
    assert_gone(processes)


def test_an_engine_that_cannot_start_ends_the_server_with_its_error(tmp_path: Path) -> None:
    server = start(tmp_path, "--", "--max-model-len", "1000000000")
    assert server.process.wait(timeout=READY_WITHIN_S) == 1
    said = (tmp_path / "stderr").read_text()
    assert "max_model_len" in said
    assert str(server.log) in said
