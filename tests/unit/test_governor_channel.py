"""The control channel at its abstract address, and `paceline governor`."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from click.testing import CliRunner

from paceline.foundation.machine import abstract_sockets
from paceline.foundation.servers import governor_channel
from paceline.operations.governor_command import governor
from paceline.operations.record_command import record
from paceline.runtime.engine.scheduler.control_channel import ControlServer

STATE = {
    "policy": "goodput",
    "draft_length": 2,
    "ceiling": 8,
    "max_draft_length": 8,
    "reason": "2 of 8: acceptance 0.61, 0.40; 41 ms a step",
    "costs": "measured 36 kinds of steps in 7.8 s",
}


class Governor:
    """A governor of which the ceiling can be set."""

    def __init__(self) -> None:
        self.given: list[Mapping[str, Any]] = []

    def state(self) -> dict[str, Any]:
        return dict(STATE)

    def set(self, command: Mapping[str, Any]) -> None:
        if command.get("ceiling", 0) > 8:
            raise ValueError("ceiling is 9; it must be a whole number from 0 (off) to 8")
        self.given.append(command)

    def record(self, command: Mapping[str, Any]) -> dict[str, Any]:
        if command != {"action": "status"}:
            raise ValueError("this engine has no file for recordings")
        return {"recording": False, "exists": False, "error": None, "bytes": 0, "max_bytes": 1,
                "num_requests": 0, "num_steps": 0}  # fmt: skip


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[Governor]:
    """The governor of this process, the only one that is listed."""
    controlled = Governor()
    server = ControlServer(governor_channel.own_address(), controlled)
    address = governor_channel.address_of(os.getpid())
    monkeypatch.setattr(abstract_sockets, "list_paths", lambda: [address, "\0other"])
    yield controlled
    server.close()


@pytest.fixture(autouse=True)
def main_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test runner may be a child process; a server is none."""
    monkeypatch.setattr(governor_channel.multiprocessing, "parent_process", lambda: None)


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(governor, arguments)
    return result.exit_code, result.output


def test_the_only_server_of_this_machine_is_shown(served: Governor) -> None:
    code, output = run("get")
    name = f"vllm serve, process {os.getpid()}"
    assert code == 0
    assert output.splitlines() == [
        f"{name}: policy goodput, draft length 2, ceiling 8 of 8",
        f"{name}: 2 of 8: acceptance 0.61, 0.40; 41 ms a step",
        f"{name}: step times: measured 36 kinds of steps in 7.8 s",
    ]


def test_a_change_reaches_the_governor(served: Governor) -> None:
    code, output = run("set", "--draft-length", "0", "--ceiling", "4", "--json")
    assert code == 0
    assert served.given == [{"draft_length": 0, "ceiling": 4}]
    assert list(json.loads(output)["replicas"].values()) == [STATE]


def test_a_refusal_says_why(served: Governor) -> None:
    code, output = run("set", str(os.getpid()), "--ceiling", "9")
    assert code == 2
    assert "it must be a whole number from 0 (off) to 8" in output


def test_an_engine_without_a_gateway_records(served: Governor) -> None:
    pid = str(os.getpid())
    shown = CliRunner().invoke(record, ["status", "--pid", pid])
    assert shown.output == f"vllm serve, process {pid}: not recording, and there is no file\n"
    refused = CliRunner().invoke(record, ["start", "--pid", pid])
    assert refused.exit_code == 2
    assert "this engine has no file for recordings" in " ".join(refused.output.split())


def test_several_servers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = [governor_channel.address_of(pid) for pid in (12, 7)]
    monkeypatch.setattr(abstract_sockets, "list_paths", lambda: addresses)
    code, output = run("set", "--draft-length", "0")
    assert code == 2
    assert "7, 12" in " ".join(output.split())


def test_a_process_without_a_governor_is_an_error() -> None:
    code, output = run("get", "1")
    assert code == 1
    assert "The process 1 has no governor" in output


@pytest.mark.parametrize("arguments", [("set",), ("set", "--policy-parameters", "{")])
def test_a_set_without_a_change_is_refused(arguments: tuple[str, ...], served: Governor) -> None:
    assert run(*arguments)[0] == 2
    assert served.given == []


def test_the_address_of_a_child_process_is_that_of_its_parent() -> None:
    """vLLM starts engine core and API servers so."""
    code = (
        "import multiprocessing, sys\n"
        "from paceline.foundation.servers.governor_channel import own_address\n"
        "def child(): print(own_address()[1:], flush=True)\n"
        "if __name__ == '__main__':\n"
        "    process = multiprocessing.get_context('fork').Process(target=child)\n"
        "    process.start(); process.join(); print(own_address()[1:])\n"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    child, parent = printed.stdout.split()
    assert child == parent


def test_a_process_of_another_user_gets_no_answer(
    served: Governor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An abstract address has no permissions, so the server looks at who connects."""
    monkeypatch.setattr(abstract_sockets, "is_own_user", lambda connected: False)
    with socket.socket(socket.AF_UNIX) as connected:
        connected.settimeout(60)
        connected.connect(governor_channel.own_address())
        assert connected.recv(100) == b""
    with pytest.raises(OSError, match="no governor of this user"):
        governor_channel.send(governor_channel.own_address(), {"op": "state"})
