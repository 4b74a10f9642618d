"""A mock server in a process of its own that is killed, stopped or orphaned."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from paceline.testing.mock_vllm import spawn_mock_vllm


def test_a_killed_process_breaks_its_stream_and_restarts_on_the_same_port() -> None:
    body = {"model": "m", "prompt": "a", "max_tokens": 4000, "stream": True, "ignore_eos": True}
    with spawn_mock_vllm("--model", "m", "--tpot-ms", "5") as server:
        with httpx.stream("POST", f"{server.url}/v1/completions", json=body, timeout=60) as answer:
            chunks = answer.iter_raw()
            assert next(chunks).startswith(b"data: ")
            server.kill()
            with pytest.raises(httpx.RemoteProtocolError):
                list(chunks)
        assert server.returncode == -9
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{server.url}/health", timeout=60)
        server.start()
        assert httpx.get(f"{server.url}/health", timeout=60).status_code == 200


def test_no_other_program_gets_the_port_of_a_server_that_is_down() -> None:
    with spawn_mock_vllm() as server:
        server.kill()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", server.port))
    with socket.socket() as other:
        other.bind(("127.0.0.1", server.port))


def test_a_stopped_process_keeps_its_port_and_does_not_answer() -> None:
    with spawn_mock_vllm() as server:
        server.stop()
        with pytest.raises(httpx.ReadTimeout):
            # limit: no answer may come, whatever the time
            httpx.get(f"{server.url}/health", timeout=0.1)
        server.resume()
        assert httpx.get(f"{server.url}/health", timeout=60).status_code == 200


def test_a_process_ends_with_its_parent() -> None:
    """Even if the parent is killed."""
    script = (
        "from paceline.testing.mock_vllm import spawn_mock_vllm\n"
        "import os\n"
        "print(spawn_mock_vllm().pid, flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    parent = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60)
    pid = int(parent.stdout)
    deadline_s = time.monotonic() + 60
    while Path(f"/proc/{pid}/exe").exists() and time.monotonic() < deadline_s:
        time.sleep(0.02)  # sleep: the pause between two looks decides nothing
    assert not Path(f"/proc/{pid}/exe").exists()
