"""`paceline serve` again right after it was stopped: the new process waits until the old has ended.

Each test waits for lines that the processes print, and for their ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from chaos.fleet import MODEL, wait_until
from chaos.gateway_process import HTTP
from paceline.testing.mock_vllm import SpawnedMockVllm, spawn_mock_vllm

_WITHIN_S = 120.0
"""Ends a test that hangs; decides nothing."""


class Serve:
    """One `paceline serve`, which may have to wait for another one."""

    def __init__(self, config: Path, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-c", "from paceline.cli import main; main()", "serve"),
                *("--config", str(config), *arguments),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        self._watchdog = threading.Timer(_WITHIN_S, self.process.kill)
        self._watchdog.start()
        self.errors = ""

    def wait_line(self, text: str) -> str:
        """The next line of standard error with this text."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.errors += line
            if text in line:
                return line
        raise AssertionError(f"ended with {self.process.wait()} without {text!r}:\n{self.errors}")

    def wait_serving(self) -> None:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert "serving" in line, self._rest()

    def wait_ended(self) -> int:
        self._rest()
        return self.process.wait()

    def _rest(self) -> str:
        assert self.process.stderr is not None
        self.errors += self.process.stderr.read()
        return self.errors

    def close(self) -> None:
        self._watchdog.cancel()
        self.process.kill()
        with self.process:  # closes the pipes
            pass


Start = Callable[..., Serve]


@pytest.fixture(scope="module")
def replica() -> Iterator[SpawnedMockVllm]:
    with spawn_mock_vllm("--model", MODEL, "--tpot-ms", "5") as running:
        yield running


@pytest.fixture
def config(replica: SpawnedMockVllm, tmp_path: Path) -> Path:
    """On two fixed ports, with a lame-duck time and a drain that outlast every test."""
    with socket.socket() as one, socket.socket() as two:
        for reserved in (one, two):
            reserved.bind(("127.0.0.1", 0))
        port, admin_port = (reserved.getsockname()[1] for reserved in (one, two))
    server = {"port": port, "admin_port": admin_port, "workers": 1}
    content = {
        "engine": {"replicas": 0},
        "server": {**server, "lame_duck_s": 600, "drain_timeout_s": 600, "stall_timeout_s": 600},
        "fleet": {"poll_period_s": 0.1, "poll_timeout_s": 600},
        "failures": {"silence_s": 600, "first_silence_s": 600},
        "replicas": [{"url": replica.url, "name": "r0"}],
    }
    file = tmp_path / "paceline.yaml"
    file.write_text(yaml.safe_dump(content))
    return file


@pytest.fixture
def start(config: Path) -> Iterator[Start]:
    """Starts processes with that configuration; they end with the test."""
    with contextlib.ExitStack() as stack:

        def start_one(*arguments: str) -> Serve:
            serve = Serve(config, *arguments)
            stack.callback(serve.close)
            return serve

        yield start_one


def url_of(config: Path, port: str = "port") -> str:
    return f"http://127.0.0.1:{yaml.safe_load(config.read_text())['server'][port]}"


def num_in_flight(config: Path) -> int:
    answer = HTTP.get(f"{url_of(config, 'admin_port')}/admin/replicas").json()
    return sum(replica["in_flight"] for replica in answer["replicas"])


def is_complete(lines: Iterable[str]) -> bool:
    """Whether a stream of completions has a `finish_reason`, `[DONE]` at its end and no error."""
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    events = [json.loads(one) for one in data if one != "[DONE]"]
    reasons = [choice["finish_reason"] for event in events for choice in event["choices"]]
    return any(reasons) and data[-1] == "[DONE]"


def in_order_of_their_ends(one: Serve, two: Serve) -> tuple[Serve, Serve]:
    """The process that ends first, when it has ended, and the other one."""
    ends = {os.pidfd_open(serve.process.pid): serve for serve in (one, two)}
    ended, _, _ = select.select(list(ends), [], [], _WITHIN_S)
    for descriptor in ends:
        os.close(descriptor)
    assert len(ended) == 1, "not exactly one of them has ended"
    return (one, two) if ends[ended[0]] is one else (two, one)


def test_a_start_after_sigterm_waits_for_the_lame_duck_and_one_of_two_starts_wins(
    config: Path, start: Start
) -> None:
    """A second signal ends the lame-duck time. The start that finds the ports taken names the
    process that has them, and how to replace it."""
    old = start()
    old.wait_serving()
    old.process.send_signal(signal.SIGTERM)
    old.wait_line("paceline: stopping")
    starts = [start(), start()]
    waiting = f"process {old.process.pid} is stopping"
    for one in starts:
        one.wait_line(waiting)
    checking = start("--check")  # which waits for nothing
    assert checking.wait_ended() == 0
    assert old.process.poll() is None
    old.process.send_signal(signal.SIGTERM)
    assert old.wait_ended() == 0
    loser, winner = in_order_of_their_ends(*starts)
    assert loser.wait_ended() == 1
    assert "--take-over replaces it" in loser.errors
    winner.wait_serving()
    body = {"model": MODEL, "prompt": "x", "max_tokens": 4}
    assert HTTP.post(f"{url_of(config)}/v1/completions", json=body).status_code == 200
    winner.process.kill()  # no notice and no address is left over
    winner.wait_ended()
    start().wait_serving()


def test_a_start_after_ctrl_c_waits_for_the_requests_in_flight_and_can_be_ended_meanwhile(
    config: Path, start: Start, replica: SpawnedMockVllm
) -> None:
    """The replica is stopped while the stream must not end. Ctrl-C has no lame-duck time."""
    old = start()
    old.wait_serving()
    replica.stop()
    body = {"model": MODEL, "prompt": "x", "max_tokens": 8, "stream": True}
    with ThreadPoolExecutor(1) as thread:
        stream = thread.submit(HTTP.post, f"{url_of(config)}/v1/completions", json=body)
        try:
            wait_until(lambda: num_in_flight(config) == 1)
            old.process.send_signal(signal.SIGINT)
            assert "requests in flight (1)" in old.wait_line("paceline: stopping")
            new, ended = start(), start()
            for one in (new, ended):
                one.wait_line(f"process {old.process.pid} is stopping")
            ended.process.send_signal(signal.SIGINT)
            assert ended.wait_ended() == 0
            assert (old.process.poll(), new.process.poll()) == (None, None)
        finally:
            replica.resume()
        assert is_complete(stream.result().text.split("\n"))
    assert old.wait_ended() == 0
    new.wait_serving()


def test_a_start_after_kill_9_serves_although_workers_outlive_their_parent(
    config: Path, start: Start, monkeypatch: pytest.MonkeyPatch, replica: SpawnedMockVllm
) -> None:
    """The workers have the data port until they have ended the request in flight."""
    monkeypatch.setenv("PACELINE_SERVER__WORKERS", "2")
    old = start()
    old.wait_serving()
    replica.stop()
    body = {"model": MODEL, "prompt": "x", "max_tokens": 8}
    with ThreadPoolExecutor(1) as thread:
        answer = thread.submit(HTTP.post, f"{url_of(config)}/v1/completions", json=body)
        try:
            wait_until(lambda: num_in_flight(config) == 1)
            old.process.kill()
            new = start()
            assert answer.result().json()["error"]["code"] == "server_stopping"
        finally:
            replica.resume()
    new.wait_serving()


def test_a_start_on_the_ports_of_a_server_that_runs_is_refused_at_once(
    config: Path, start: Start
) -> None:
    """On its address, on one that includes it, and on its admin port alone; not on another one."""
    old = start()
    old.wait_serving()
    same, wildcard = start(), start("--host", "0.0.0.0")
    admin, other = start("--port", "0"), start("--host", "127.0.0.2", "--admin-port", "0")
    assert [one.wait_ended() for one in (same, wildcard, admin)] == [1, 1, 1]
    assert " --take-over replaces it" in same.errors
    assert "--host 127.0.0.1 --take-over replaces it" in wildcard.errors
    assert "set server.admin_port" in admin.errors
    assert "take-over" not in admin.errors
    other.wait_serving()
    assert not any("stopping" in one.errors for one in (same, wildcard, admin, other))
