"""What a server answers does not steer the terminal of the command that shows it."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from paceline import cli
from paceline.foundation.command_line.printable import printable
from paceline.testing.mock_vllm.spawn import spawn_mock_vllm

HOSTILE = "a\x1b]0;title\x07\x9b2J\u202e\ud800[/red]\nb"
"""Sets the title, clears the screen, turns the text around, cannot be encoded, and is markup."""
_CAPTURE = {
    "folder": HOSTILE, "bytes": 1, "max_bytes": 2, "capturing": True, "oldest_s": 1.0,
    "num_files": 1, "max_age_s": 1.0, "redact": HOSTILE, "answers": False, "share": 0.5,
}  # fmt: skip
_SWAP = {
    "draft": HOSTILE, "state": "stopped", "reason": HOSTILE, "begun_at": "now",
    "replicas": [{"name": HOSTILE, "phase": "restored", "reason": HOSTILE}],
}  # fmt: skip
ANSWERS: dict[str, dict[str, Any]] = {
    "/admin/capture": _CAPTURE,
    "/admin/recording": {"replicas": {HOSTILE: {"error": HOSTILE}}},
    "/admin/draft": {"swap": _SWAP},
}
COMMANDS = (["capture", "status"], ["record", "status"], ["draft", "swap", "ngram"])


class _Admin(http.server.BaseHTTPRequestHandler):
    status = 200

    def _answer(self) -> None:
        body: dict[str, Any] = ANSWERS[self.path]
        if self.status != 200:
            body = {"error": {"message": HOSTILE}}
        data = json.dumps(body).encode()
        self.send_response(self.status)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = _answer

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def admin_url() -> Iterator[str]:
    with http.server.HTTPServer(("127.0.0.1", 0), _Admin) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def shown(*words: str) -> str:
    """Everything that the command prints, which must be harmless."""
    result = CliRunner().invoke(cli.main, list(words))
    assert isinstance(result.exception, SystemExit | None)  # not one that printing raised
    output = result.output
    assert output
    for line in output.splitlines():
        assert line == printable(line)
    return output


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("status", [200, 400])
def test_answers_of_the_admin_port_are_cleaned(
    words: list[str], status: int, admin_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message of the server stays on one line, so that it cannot pass for one of the command."""
    monkeypatch.setattr(_Admin, "status", status)
    assert printable(HOSTILE) in shown(*words, "--admin-url", admin_url)


@click.command()
def failing() -> None:
    raise click.ClickException(f"first line\nsecond {HOSTILE}")


def test_errors_of_every_command_are_cleaned_and_keep_their_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(cli._COMMANDS, "failing", (__name__, "failing", ""))
    assert shown("failing").startswith("Error: first line\nsecond a\ufffd]0;title")


def test_a_model_with_a_hostile_name_is_measured_and_shown(tmp_path: Path) -> None:
    name = "a\x1b]0;title\x07[/red]"
    prompts = tmp_path / "p.jsonl"
    prompts.write_text('{"prompt": "x"}\n')
    with spawn_mock_vllm("--model", name, "--tpot-ms", "1") as server:
        output = shown(
            *("bench", "run", server.url, "--prompts", str(prompts), "--num-requests", "2"),
            *("--concurrency", "1", "--max-tokens", "4"),
        )
    assert f"model {printable(name)}" in output
