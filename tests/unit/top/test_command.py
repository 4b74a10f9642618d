"""`paceline top` against a scripted server: one snapshot, the terminal, errors."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from paceline.cli import main
from unit.top.scripted_server import ScriptedServer, scripted_server


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["top", *arguments], env={"PACELINE_ADMIN_KEY": None})


def test_without_a_terminal_one_snapshot_is_printed(server: ScriptedServer) -> None:
    result = run(server.url)
    assert result.exit_code == 0
    assert "engine-1" in result.output
    assert "acceptance" in result.output
    assert "\x1b" not in result.output
    assert server.num_streams == 0


def test_one_snapshot_is_written_as_json(server: ScriptedServer, tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    assert run(server.url, "--json", str(file)).exit_code == 0
    document = json.loads(file.read_text())
    assert (document["schema_version"], document["number"]) == (1, 2)
    assert document["latest"]["replicas"][0]["draft_length"] == 2
    assert json.loads(run(server.url, "--json", "-").output) == document


def test_a_file_that_cannot_be_written_is_wrong_usage(server: ScriptedServer) -> None:
    result = run(server.url, "--json", "/nowhere/state.json")
    assert result.exit_code == 2
    assert "--json is /nowhere/state.json" in result.output


@pytest.mark.parametrize("url", ["ftp://x", "127.0.0.1:8001", "http://"])
def test_a_url_that_is_none_is_wrong_usage(url: str) -> None:
    result = run(url)
    assert result.exit_code == 2
    assert "is no http:// or https:// URL" in result.output


def test_the_key_is_sent(server: ScriptedServer) -> None:
    server.key = "pl-abc"
    assert run(server.url, "--admin-key", "pl-abc").exit_code == 0
    result = run(server.url)
    assert result.exit_code == 1
    assert "set PACELINE_ADMIN_KEY, or give --admin-key (no API key)" in result.output


def test_a_server_that_is_not_there_is_one_sentence() -> None:
    result = run("http://127.0.0.1:9")
    assert result.exit_code == 1
    assert "http://127.0.0.1:9 cannot be reached" in result.output
    assert "by default http://" in result.output


def test_a_server_on_this_machine_is_asked_without_the_proxy(
    server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert run(server.url).exit_code == 0


def test_a_port_that_is_none_is_no_traceback() -> None:
    result = run("http://127.0.0.1:80x/")
    assert result.exit_code == 1
    assert "cannot be reached" in result.output


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (404, b"", "has no live view"),
        (500, b"oops", "answered with status 500"),
        (503, b'{"error": {"message": "32 viewers watch already."}}', "32 viewers"),
        (200, b"<html>", "sent no live view"),
        (200, b"[]", "sent no live view"),
        (200, b'{"schema_version": 2}', "schema version 2; this paceline reads 1"),
    ],
)
def test_other_answers_are_explained(
    server: ScriptedServer, status: int, body: bytes, message: str
) -> None:
    server.raw = (status, body)
    result = run(server.url)
    assert result.exit_code == 1
    assert message in result.output


def test_a_refusal_cannot_control_the_terminal(server: ScriptedServer) -> None:
    text = "no \x1b]0;title\x07 \x9b2J \u202egnp \u2066 \u200f key"
    for status in (401, 404, 500):
        server.raw = (status, json.dumps({"error": {"message": text}}).encode())
        result = run(server.url)
        assert result.exit_code == 1
        assert not set("\x1b\x07\x9b\u202e\u2066\u200f") & set(result.output)
        assert "gnp" in result.output


def test_the_key_is_not_sent_to_where_a_redirect_points(server: ScriptedServer) -> None:
    with scripted_server() as other:
        server.redirects_to = other.url
        result = run(server.url, "--admin-key", "pl-abc")
        assert result.exit_code == 1
        assert "answered with status 302" in result.output
        assert other.num_requests == 0


class Terminal:
    """The command in a pseudo-terminal of 100 by 30."""

    def __init__(self, process: subprocess.Popen[bytes], descriptor: int) -> None:
        self.process = process
        self._descriptor = descriptor
        self._shown = b""

    def wait_for(self, text: str, within_s: float = 60.0) -> None:
        """Read until the text has been shown after that of the last call."""
        end_s = time.monotonic() + within_s
        while text.encode() not in self._shown:
            assert time.monotonic() < end_s, f"{text!r} is not in {self._shown[-2000:]!r}"
            self._shown += self._read()
        # What one read has brought may have the next text, too.
        self._shown = self._shown.partition(text.encode())[2]

    def drain(self) -> int:
        """Read what is left; the exit code."""
        end_s = time.monotonic() + 60
        while self.process.poll() is None and time.monotonic() < end_s:
            self._read()
        return self.process.wait(60)

    def _read(self) -> bytes:
        """What is there within 0.1 s; nothing once the program has ended."""
        if not select.select([self._descriptor], [], [], 0.1)[0]:
            return b""
        try:
            return os.read(self._descriptor, 65536)
        except OSError:  # Linux: the other side is closed
            return b""


@contextmanager
def in_terminal(url: str) -> Iterator[Terminal]:
    parent, child = pty.openpty()
    program = "from paceline.cli import main; main()"
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    process = subprocess.Popen(
        [sys.executable, "-c", program, "top", url],
        stdin=child, stdout=child, stderr=child, env=environment,
    )  # fmt: skip
    os.close(child)
    try:
        yield Terminal(process, parent)
    finally:
        process.kill()
        process.wait()
        os.close(parent)


def test_in_a_terminal_it_follows_the_events_until_ctrl_c(server: ScriptedServer) -> None:
    server.num_updates = 4  # draft lengths 3 to 6
    with in_terminal(server.url) as terminal:
        terminal.wait_for("engine-1")
        terminal.wait_for("\x1b[1m6\x1b")
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.drain() == 0
    assert server.num_streams == 1


def test_a_lost_connection_is_opened_again(server: ScriptedServer) -> None:
    server.keeps_streams_open = False
    with in_terminal(server.url) as terminal:
        terminal.wait_for("reconnecting")
        server.keeps_streams_open = True
        terminal.wait_for("live")
        assert server.num_streams >= 2
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.drain() == 0


def test_an_error_that_may_pass_is_retried_and_another_one_ends_it(server: ScriptedServer) -> None:
    server.keeps_streams_open = False
    with in_terminal(server.url) as terminal:
        terminal.wait_for("reconnecting")
        server.raw = (503, b'{"error": {"message": "too many"}}')
        terminal.wait_for("too many; reconnecting")
        server.raw = None
        terminal.wait_for("the server ended the stream; reconnecting")
        server.raw = (401, b"")
        terminal.wait_for("needs a key")
        assert terminal.drain() == 1


def test_a_missing_update_brings_a_new_history(server: ScriptedServer) -> None:
    server.num_updates, server.skips_an_update = 2, True
    with in_terminal(server.url) as terminal:
        terminal.wait_for("live")
        terminal.wait_for("live")
        assert server.num_streams >= 2
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.drain() == 0


def test_in_a_terminal_too_a_server_that_is_not_there_is_an_error() -> None:
    with in_terminal("http://127.0.0.1:9") as terminal:
        terminal.wait_for("cannot be reached")
        assert terminal.drain() == 1
