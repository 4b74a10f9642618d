"""The stages of the stranger's path: how commands run, what counts as passed, and the verdict."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from benchmarks.strangers_path import (
    Shell,
    StageFailed,
    check_report,
    empty_environment,
    fetch_page,
    has_content,
    judge,
    refuse_taken_port,
)
from paceline.testing.mock_vllm import MockVllm, MockVllmSettings

TOKEN = 'data: {"choices": [{"delta": {"content": "def"}}]}'
ROLE = 'data: {"choices": [{"delta": {"role": "assistant", "content": ""}}]}'


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path, empty_environment(os.environ, tmp_path))


def test_the_environment_has_no_trace_of_this_one(tmp_path: Path) -> None:
    given = {
        "PATH": "/usr/bin", "PYTHONPATH": "src", "VIRTUAL_ENV": "/v", "HOME": "/root",
        "XDG_CACHE_HOME": "/c", "PIP_CACHE_DIR": "/c", "PACELINE_ENGINE__POLICY": "fixed",
        "https_proxy": "http://p", "PIP_INDEX_URL": "http://i", "SSL_CERT_FILE": "/s",
    }  # fmt: skip
    assert empty_environment(given, tmp_path) == {
        "PATH": "/usr/bin", "HOME": str(tmp_path), "LANG": "C.UTF-8",
        "https_proxy": "http://p", "PIP_INDEX_URL": "http://i", "SSL_CERT_FILE": "/s",
    }  # fmt: skip


def test_a_command_runs_in_the_clone_with_that_environment(shell: Shell, tmp_path: Path) -> None:
    assert shell.run("where", 'pwd; echo "$HOME"').split() == [str(tmp_path)] * 2


def test_a_command_that_fails_ends_the_path_with_its_errors(shell: Shell) -> None:
    with pytest.raises(StageFailed, match="doctor: exit code 3: no server"):
        shell.run("doctor", "echo no server >&2; exit 3")


def test_the_first_token_is_noted_once_and_not_the_role(shell: Shell) -> None:
    noted: list[str] = []
    shell.stream(
        f"printf '%s\\n' '{ROLE}' '{TOKEN}' '{TOKEN}' 'data: [DONE]'", lambda: noted.append("x")
    )
    assert noted == ["x"]
    assert not has_content(ROLE)
    assert not has_content(": a comment")


@pytest.mark.parametrize(
    ("lines", "code", "message"),
    [
        ((ROLE, "data: [DONE]"), 0, "no text"),
        ((TOKEN,), 0, "no end"),
        ((TOKEN, "data: [DONE]"), 7, "exit code 7"),
    ],
)
def test_an_answer_without_text_or_end_ends_the_path(
    lines: tuple[str, ...], code: int, message: str, shell: Shell
) -> None:
    words = " ".join(f"'{line}'" for line in lines)
    with pytest.raises(StageFailed, match=message):
        shell.stream(f"printf '%s\\n' {words}; exit {code}", lambda: None)


def test_a_server_is_waited_for_and_ends_with_its_children(shell: Shell, tmp_path: Path) -> None:
    command = "sleep 600 & echo $! > child; echo serving; wait"
    with shell.running_server(command, tmp_path / "log") as server:
        server.wait_for("the server", lambda: "serving" in server.printed())
    assert server.process.returncode is not None
    child = int((tmp_path / "child").read_text())
    deadline_s = time.monotonic() + 60
    while is_running(child):
        assert time.monotonic() < deadline_s, "the child outlives the server"
        time.sleep(0.01)  # sleep: the pause between two looks decides nothing


def is_running(pid: int) -> bool:
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())  # of a zombie it is empty
    except OSError:
        return False


def test_a_server_that_ends_ends_the_path(shell: Shell, tmp_path: Path) -> None:
    with (
        shell.running_server("echo no index; exit 2", tmp_path / "log") as server,
        pytest.raises(StageFailed, match="exit code 2: no index"),
    ):
        server.wait_for("the environment", lambda: False)


def test_a_port_that_another_server_has_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StageFailed, match=f"port {port} is taken"):
            refuse_taken_port(f"http://127.0.0.1:{port}/v1/chat/completions")
    refuse_taken_port(f"http://127.0.0.1:{port}")


async def test_json_is_no_dashboard() -> None:
    import asyncio

    async with MockVllm(MockVllmSettings()) as server:
        with pytest.raises(StageFailed, match="which is no page"):
            await asyncio.to_thread(fetch_page, f"{server.url}/v1/models")


def test_an_empty_file_is_no_report(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    with pytest.raises(StageFailed, match="no page"):
        check_report(file)
    file.write_text("")
    with pytest.raises(StageFailed, match="no page"):
        check_report(file)
    file.write_text("<!DOCTYPE html>\n<html></html>")
    assert check_report(file) == 29


def test_each_part_of_the_requirement_is_judged() -> None:
    passed = {
        "is_complete": True,
        "stages": [{"name": "doctor", "since_start_s": 600.0}],
        "untracked": [],
    }
    assert all(judge(passed).values())
    assert not judge({**passed, "is_complete": False})["all_stages_passed"]
    assert not judge({**passed, "stages": [{"name": "doctor", "since_start_s": 600.1}]})["in_time"]
    assert not judge({**passed, "stages": []})["in_time"]
    assert not judge({**passed, "untracked": ["report.html"]})["clone_is_clean"]
