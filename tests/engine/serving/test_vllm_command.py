"""`vllm serve` with `--scheduler-cls`, without the rest of Paceline."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from paceline.demo import draft_path, target_path

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

READY_WITHIN_S = 400.0
SPECULATION = {
    "method": "draft_model",
    "model": str(draft_path()),
    "num_speculative_tokens": 8,
}


@dataclass(frozen=True, slots=True)
class Vllm:
    """A server started by vLLM's own command."""

    url: str
    control_socket: str

    def complete(self, **request: Any) -> dict[str, Any]:
        body = {"model": "target", "prompt": "def add(a, b):\n", "max_tokens": 48} | request
        answer = httpx.post(f"{self.url}/v1/completions", json=body, timeout=60)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def counted(self) -> dict[str, float]:
        """vLLM's vllm:spec_decode_* counters, by the part of the name that differs."""
        text = httpx.get(f"{self.url}/metrics", timeout=10).text
        found = re.findall(r"^vllm:spec_decode_num_(\w+)_total\{[^}]*\} (\S+)$", text, re.M)
        return {name: float(value) for name, value in found}

    def control(self, **request: Any) -> dict[str, Any]:
        with socket.socket(socket.AF_UNIX) as channel:
            channel.connect(self.control_socket)
            channel.sendall(json.dumps(request).encode() + b"\n")
            with channel.makefile("rb") as answers:
                return dict(json.loads(answers.readline()))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vllm]:
    folder = tmp_path_factory.mktemp("v")
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    command = [
        *(str(Path(sys.executable).parent / "vllm"), "serve", str(target_path())),
        *("--host", "127.0.0.1", "--port", str(port), "--served-model-name", "target"),
        *("--max-model-len", "1024", "--enforce-eager"),
        *("--speculative-config", json.dumps(SPECULATION)),
        *("--scheduler-cls", "paceline.engine.AdaptiveScheduler"),
        # The test reads and sets the policy of the running server through it.
        *("--additional-config", json.dumps({"paceline": {"control_socket": f"{folder}/c"}})),
    ]
    log = folder / "log"
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env=environment, start_new_session=True
        )
    try:
        found = Vllm(f"http://127.0.0.1:{port}", f"{folder}/c")
        deadline_s = time.monotonic() + READY_WITHIN_S
        while not _answers(found.url):
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline_s, log.read_text()[-3000:]
            time.sleep(0.2)
        yield found
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


@pytest.mark.parametrize("length", [3, 0, 8])
def test_the_draft_length_follows_the_policy(server: Vllm, length: int) -> None:
    """With a fixed length every draft has that many tokens, by vLLM's counters."""
    assert server.control(op="set", draft_length=length)["ok"]
    server.complete(temperature=0, max_tokens=2)  # verifies drafts of the length before
    before = server.counted()
    server.complete(temperature=0)
    after = server.counted()
    num_drafts = after["drafts"] - before["drafts"]
    assert (num_drafts > 0) == (length > 0)
    assert after["draft_tokens"] - before["draft_tokens"] == length * num_drafts


def test_vllms_metrics_agree_with_ours(server: Vllm) -> None:
    """Under the default policy, greedy and sampled requests: all totals are equal."""
    assert server.control(op="set", policy="goodput")["ok"]
    for temperature in (0.0, 1.0, 0.7):
        server.complete(temperature=temperature, n=1)
    counted, state = server.counted(), server.control(op="state")["state"]
    assert counted["drafts"] == state["num_drafts_total"] > 0
    assert counted["draft_tokens"] == state["drafted_tokens_total"]
    assert counted["accepted_tokens"] == state["accepted_tokens_total"]
    assert state["policy"] == "goodput"
    assert state["policy_errors_total"] == 0
