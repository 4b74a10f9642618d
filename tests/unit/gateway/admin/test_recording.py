"""Recordings are started, shown, stopped and deleted over the admin port and by the command."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from paceline.operations.record_command import describe, record
from paceline.runtime.gateway.keys.file import change_text
from paceline.runtime.gateway.keys.record import join_key, render_line
from paceline.runtime.gateway.keys.roles import Role
from paceline.runtime.gateway.settings import KeySettings
from unit.gateway.admin.test_admin_app import controlled
from unit.gateway.conftest import Serve, Served
from unit.gateway.keys.records import SECRET
from unit.gateway.keys.records import record as key_record

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_recording_is_started_shown_and_stopped(served: Served) -> None:
    async with controlled(served) as control:
        shown = await served.admin.get("/admin/recording")
        assert shown.json() == {"replicas": {"r0": {"recording": False}}}
        start = {"action": "start", "max_bytes": 10**6, "max_seconds": 60}
        started = await served.admin.post("/admin/recording", json=start)
        assert (started.status_code, control.is_recording) == (200, True)
        stopped = await served.admin.post("/admin/recording", json={"action": "stop"})
        assert stopped.json() == {"replicas": {"r0": {"recording": False}}}
        assert control.commands[1] == {"op": "record", **start}


async def test_an_engine_may_refuse_with_its_reason(served: Served) -> None:
    async with controlled(served):
        answer = await served.admin.delete("/admin/recording")
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "recording_refused")
    assert "r0: there is no recording" in error["message"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "action"),
        ({"action": "status"}, "action"),
        ({"action": ["start"]}, "action"),
        ({"action": "start", "file": "/etc/passwd"}, "file"),
        ({"action": "stop", "max_bytes": 10**6}, "max_bytes"),
        ({"action": "start", "max_bytes": "1"}, "max_bytes"),
        ({"action": "start", "vary_draft_length": "yes"}, "vary_draft_length"),
        ({"action": "start", "max_seconds": True}, "max_seconds"),
    ],
)
async def test_invalid_commands_get_a_400_and_reach_no_engine(
    served: Served, body: dict[str, object], param: str
) -> None:
    async with controlled(served) as control:
        answer = await served.admin.post("/admin/recording", json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
        assert control.commands == []


async def test_a_command_is_not_repeated_after_an_engine_restart(served: Served) -> None:
    """Unlike a change of the governor."""
    async with controlled(served):
        await served.admin.post("/admin/recording", json={"action": "start"})
        shown = await served.admin.get("/admin/governor")
        assert "recording" not in shown.json()["replicas"]["r0"]


async def run(served: Served, *arguments: str) -> Result:
    """The command, in a thread: it waits for the gateway, which runs in this one."""
    url = str(served.admin.base_url)
    return await asyncio.to_thread(
        CliRunner().invoke, record, [*arguments, "--admin-url", url], catch_exceptions=False
    )


async def test_the_command_starts_and_shows_and_stops(served: Served) -> None:
    async with controlled(served) as control:
        started = await run(served, "start", "--max-mib", "2", "--max-seconds", "9", "--json")
        assert started.exit_code == 0, started.output
        assert json.loads(started.stdout) == {"replicas": {"r0": {"recording": True}}}
        assert control.commands[0] == {
            "op": "record",
            "action": "start",
            "max_bytes": 2 * 1024 * 1024,
            "max_seconds": 9.0,
        }
        stopped = await run(served, "stop", "--replica", "r0", "--json")
        assert (stopped.exit_code, control.is_recording) == (0, False)


async def test_the_command_prints_what_the_gateway_refuses(served: Served) -> None:
    async with controlled(served):
        refused = await run(served, "delete")
        assert refused.exit_code == 1
        assert "Error: r0: there is no recording" in refused.stderr
        unknown = await run(served, "status", "--replica", "r9")
        assert "There is no replica 'r9'" in unknown.stderr


async def test_the_command_sends_its_key(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "admin-keys"
    line = render_line(key_record(id="readaaaa", tenant="watch", role=Role.READ))
    change_text(path, lambda _: line)
    async with serve(keys=KeySettings(admin_key_file=path)) as served, controlled(served):
        assert (await run(served, "status", "--json")).exit_code == 1
        monkeypatch.setenv("PACELINE_ADMIN_KEY", join_key("readaaaa", SECRET))
        assert (await run(served, "status", "--json")).exit_code == 0
        refused = await run(served, "start")
        assert "The key has the role read" in refused.stderr


@pytest.mark.parametrize(
    ("url", "exit_code", "message"),
    [("localhost:1", 2, "must begin with http://"), ("http://127.0.0.1:9", 1, "cannot be reached")],
)
async def test_a_server_that_is_not_there_is_named(url: str, exit_code: int, message: str) -> None:
    result = CliRunner().invoke(record, ["status", "--admin-url", url])
    assert result.exit_code == exit_code
    assert message in result.stderr


STATUS = {
    "recording": False, "file": "/s/r.jsonl", "exists": False, "bytes": 2**20, "max_bytes": 2**26,
    "seconds": 12.2, "max_seconds": 60.0, "num_requests": 3, "num_steps": 40, "ended": None,
    "error": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "not recording, and there is no file"),
        (
            {"recording": True, "exists": True},
            "recording for 12 of 60 s: 3 requests, 40 steps, 1.0 of 64 MiB, to /s/r.jsonl",
        ),
        (
            {"exists": True, "ended": "time"},
            "not recording; ended (time) with 3 requests, 40 steps, 1.0 of 64 MiB: /s/r.jsonl",
        ),
        ({"exists": True}, "not recording; there is an earlier file, /s/r.jsonl"),
        ({"error": "no space", "ended": "failed"}, "not recording; the last one failed: no space"),
    ],
)
async def test_the_status_in_words(changes: dict[str, object], text: str) -> None:
    assert text in describe(STATUS | changes)


async def test_a_replica_without_a_governor_is_described_by_its_error() -> None:
    assert describe({"error": "the replica has no control channel"}) == (
        "the replica has no control channel"
    )
