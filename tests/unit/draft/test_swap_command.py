"""The command: what it sends, what it shows, and how it ends. The server is scripted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from paceline.workbench.draft import swap_command
from paceline.workbench.draft.command import draft
from paceline.workbench.draft.swap_command import progress_lines
from paceline.workbench.draft.training import FILE_NAME


def state(kind: str, *phases: str, reason: str | None = None) -> dict[str, Any]:
    engines = [
        {"name": f"engine-{index}", "phase": phase, "reason": None}
        for index, phase in enumerate(phases)
    ]
    begun_at = "2026-11-23T10:15:02+00:00"
    swap = {"draft": "/new", "state": kind, "reason": reason, "begun_at": begun_at}
    return {"swap": {**swap, "replicas": engines}}


class Server:
    """Answers one state after the other."""

    def __init__(self, *states: dict[str, Any]) -> None:
        self.states = list(states)
        self.sent: list[tuple[str, Any]] = []

    def send(self, method: str, path: str, body: Any, **server: Any) -> dict[str, Any]:
        assert path == "/admin/draft"
        assert server == {"admin_url": "http://127.0.0.1:8001", "admin_key": None}
        self.sent.append((method, body))
        answer = self.states.pop(0)
        if "interrupt" in answer:
            raise KeyboardInterrupt
        if "error" in answer:
            raise click.ClickException(answer["error"])
        return answer


def run(monkeypatch: pytest.MonkeyPatch, server: Server, *arguments: str) -> Result:
    monkeypatch.setattr(swap_command, "send_to_admin", server.send)
    monkeypatch.setattr(swap_command, "_POLL_S", 0.0)
    return CliRunner().invoke(draft, ["swap", *arguments], catch_exceptions=False)


def test_it_waits_for_the_end_and_shows_each_phase_once(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(
        state("running", "waiting", "waiting"),
        state("running", "draining", "waiting"),
        state("running", "draining", "waiting"),
        state("running", "swapped", "starting"),
        state("completed", "swapped", "swapped"),
    )
    result = run(monkeypatch, server, "ngram")
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "engine-0: draining", "engine-0: swapped", "engine-1: starting", "engine-1: swapped",
    ]  # fmt: skip
    assert "All engines run with /new" in result.stdout
    assert server.sent[0] == ("POST", {"draft": "ngram", "allow_outage": False})
    assert [method for method, _ in server.sent[1:]] == ["GET"] * 4


def test_a_swap_that_stops_has_exit_code_1(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = state("stopped", "swapped", "restored", reason="engine-1: no memory")
    result = run(monkeypatch, Server(state("running", "waiting", "waiting"), stopped), "ngram")
    assert result.exit_code == 1
    assert result.stdout == "Stopped: engine-1: no memory. With the new draft: engine-0.\n"


def test_ctrl_c_ends_the_command_only(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, Server(state("running", "waiting"), {"interrupt": True}), "ngram")
    assert result.exit_code == 130
    assert "The swap continues in the server" in result.stderr


def test_ctrl_c_before_the_answer_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server may have begun; exit code 1 would say that it has not."""
    result = run(monkeypatch, Server({"interrupt": True}), "ngram")
    assert result.exit_code == 130
    assert "If the swap has begun, it continues in the server" in result.stderr


def test_a_server_that_ends_in_the_middle_has_lost_the_swap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = {"error": "http://h cannot be reached (Connection refused)"}
    result = run(monkeypatch, Server(state("running", "draining"), refused), "ngram")
    assert result.exit_code == 1
    assert "cannot be reached (Connection refused). If the server has ended, the swap is lost" in (
        result.stderr
    )


def test_without_waiting_it_sends_one_request(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(state("running", "waiting"))
    result = run(monkeypatch, server, "ngram", "--no-wait", "--allow-outage")
    assert result.exit_code == 0
    assert server.sent == [("POST", {"draft": "ngram", "allow_outage": True})]


def test_a_folder_is_sent_as_its_whole_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The server runs in another working folder."""
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    server = Server(state("completed", "swapped"))
    run(monkeypatch, server, "mine")
    assert server.sent[0][1]["draft"] == str((tmp_path / "mine").resolve())


@pytest.mark.parametrize("promoted", [True, False])
def test_a_draft_that_was_not_promoted_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, promoted: bool
) -> None:
    provenance = {"promoted": promoted, "reason": "the gain is not proven"}
    (tmp_path / FILE_NAME).write_text(json.dumps(provenance))
    server = Server(*[state("completed", "swapped")] * 2)
    result = run(monkeypatch, server, str(tmp_path))
    if promoted:
        assert result.exit_code == 0
        return
    assert (result.exit_code, server.sent) == (1, [])
    assert "was not promoted: the gain is not proven. Give --unpromoted" in result.stderr
    assert run(monkeypatch, server, str(tmp_path), "--unpromoted").exit_code == 0


def test_a_reason_to_wait_is_shown_when_it_changes() -> None:
    shown: dict[str, str] = {}
    waiting = {"name": "a", "phase": "waiting", "reason": "no other replica is ready"}
    assert progress_lines({"replicas": [{**waiting, "reason": None}]}, shown) == []
    assert progress_lines({"replicas": [waiting]}, shown) == [
        "a: waiting: no other replica is ready"
    ]
    assert progress_lines({"replicas": [waiting]}, shown) == []


@pytest.mark.parametrize("later", [None, "2026-11-23T10:20:00+00:00"], ids=["none", "another"])
def test_a_server_that_was_started_anew_has_lost_the_swap(
    monkeypatch: pytest.MonkeyPatch, later: str | None
) -> None:
    """It ended in the middle of the swap, and something restarts it; it may swap again since."""
    answer: dict[str, Any] = {"swap": None}
    if later is not None:
        answer = state("completed", "swapped", "swapped")
        answer["swap"]["begun_at"] = later
    result = run(monkeypatch, Server(state("running", "draining", "waiting"), answer), "ngram")
    assert result.exit_code == 1
    assert "no longer shows this swap" in result.stderr
    assert "GET /admin/draft" in result.stderr
