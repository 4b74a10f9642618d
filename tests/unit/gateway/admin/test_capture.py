"""The command that shows and deletes captured prompts."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from paceline.operations.capture_command import capture, describe
from paceline.runtime.gateway.settings import CaptureSettings
from unit.gateway.conftest import Serve, Served

pytestmark = pytest.mark.asyncio

STATE = {
    "capturing": True, "folder": "/var/kept", "share": 0.05, "answers": False, "redact": None,
    "num_files": 2, "bytes": 3 * 2**20, "max_bytes": 2**28, "oldest_s": 7200.0,
    "max_age_s": 604_800.0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        (
            {"capturing": False, "share": 0.0},
            "not capturing: capture.share is 0; still kept: 3.0 of 256 MiB in 2 files, the oldest "
            "2.0 of 168.0 h old, in /var/kept",
        ),
        (
            {"capturing": False, "share": 0.0, "oldest_s": None},
            "not capturing: capture.share is 0; still kept: nothing, in /var/kept",
        ),
        (
            {},
            "capturing prompts of 5.0% of the requests, not redacted: 3.0 of 256 MiB in 2 files, "
            "the oldest 2.0 of 168.0 h old, in /var/kept",
        ),
        (
            {"answers": True, "redact": "ours:redact", "oldest_s": None},
            "capturing prompts and answers of 5.0% of the requests, redacted by ours:redact: "
            "nothing yet, in /var/kept",
        ),
    ],
)
async def test_the_status_in_words(changes: dict[str, Any], text: str) -> None:
    assert describe({**STATE, **changes}) == text


async def test_the_status_without_a_folder_in_words() -> None:
    assert describe({"capturing": False}) == "not capturing: capture.folder is not set"


async def run(served: Served, *arguments: str) -> Result:
    """The command, in a thread: it waits for the gateway, which runs in this one."""
    url = str(served.admin.base_url)
    return await asyncio.to_thread(
        CliRunner().invoke, capture, [*arguments, "--admin-url", url], catch_exceptions=False
    )


async def test_the_command_shows_and_deletes(serve: Serve, tmp_path: Path) -> None:
    async with serve(capture=CaptureSettings(folder=tmp_path)) as served:
        (tmp_path / "prompts-1795400000000-1.jsonl").write_text("{}\n")
        shown = await run(served, "status", "--json")
        assert json.loads(shown.stdout)["num_files"] == 1
        deleted = await run(served, "delete")
        assert deleted.stdout == "deleted 1 files, 0.0 MiB\n"
        assert os.listdir(tmp_path) == []


async def test_with_a_share_of_0_the_kept_prompts_are_shown_and_deleted(
    serve: Serve, tmp_path: Path
) -> None:
    async with serve(capture=CaptureSettings(folder=tmp_path, share=0.0)) as served:
        (tmp_path / "prompts-1795400000000-1.jsonl").write_text("{}\n")
        shown = json.loads((await run(served, "status", "--json")).stdout)
        assert (shown["capturing"], shown["num_files"]) == (False, 1)
        assert (await run(served, "delete")).exit_code == 0
        assert os.listdir(tmp_path) == []


async def test_a_server_without_a_capture_refuses_to_delete(serve: Serve) -> None:
    async with serve() as served:
        refused = await run(served, "delete")
        assert refused.exit_code == 1
        assert "capture.folder is not set" in refused.stderr
        assert "capture.share: 0" in refused.stderr
        assert "not capturing" in (await run(served, "status")).stdout
