"""The verdict on a run: silent, on a healthy load, with a diagnosis each time."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from benchmarks.changing_load import LEFT
from benchmarks.doctor_silence import (
    ADMIN,
    ENGINE,
    diagnose,
    judged,
    observed_s,
    relayed,
    summarize,
)


def document(*severities: str, passed: tuple[str, ...] = ("queue",)) -> dict[str, Any]:
    findings = [{"id": f"{severity}-one", "severity": severity} for severity in severities]
    return {"findings": findings, "passed": list(passed)}


def entry(number: int, target: str, found: dict[str, Any] | None) -> dict[str, Any]:
    return {"number": number, "target": target, "seconds": 17.0, **judged(found, "no server")}


def run(*diagnoses: dict[str, Any], **outcomes: int) -> dict[str, Any]:
    sent = [{"kind": "idle", "outcomes": {}}, {"kind": "x", "outcomes": outcomes or {"ok": 9}}]
    return summarize({"diagnoses": list(diagnoses), "load": sent})


def test_remarks_are_counted_and_do_not_break_the_silence() -> None:
    summary = run(
        entry(0, ADMIN, document("info", passed=("queue", "restarts"))),
        entry(1, ENGINE, document()),
        entry(2, ADMIN, document("info", "info")),
        **{"ok": 9, LEFT: 4},
    )
    assert summary["is_passed"]
    assert (summary["num_diagnoses"], summary["num_above_info"]) == (3, 0)
    assert summary["info"] == {"info-one": 3}
    assert summary["observed_minutes"] == 0.8  # 51 s, rounded
    assert summary["passed_by_target"] == {
        ADMIN: {"queue": 2, "restarts": 1},
        ENGINE: {"queue": 1},
    }


@pytest.mark.parametrize("severity", ["warning", "critical"])
def test_a_finding_above_info_fails_the_run_and_keeps_its_document(severity: str) -> None:
    found = document("info", severity)
    loud = entry(1, ENGINE, found)
    summary = run(entry(0, ADMIN, document()), loud)
    assert not summary["is_silent"]
    assert not summary["is_passed"]
    assert summary["above_info"] == {f"{severity}-one": 1}
    assert loud["document"] == found
    assert "document" not in entry(0, ADMIN, document("info"))


def test_a_diagnosis_that_was_not_made_fails_the_run() -> None:
    summary = run(entry(0, ADMIN, document()), entry(1, ENGINE, None))
    assert summary["not_made"] == [1]
    assert not summary["is_passed"]


def test_a_failed_request_fails_the_run_but_not_the_silence() -> None:
    summary = run(entry(0, ADMIN, document()), ok=9, http_error=1)
    assert summary["is_silent"]
    assert not summary["is_load_healthy"]
    assert not summary["is_passed"]


def test_a_run_without_requests_or_diagnoses_shows_nothing() -> None:
    assert not run()["is_passed"]
    assert not summarize({"diagnoses": [entry(0, ADMIN, document())], "load": []})["is_passed"]


def test_the_time_of_all_pieces_counts() -> None:
    assert observed_s([entry(n, ADMIN, document()) for n in range(4)]) == 68.0


async def test_a_server_that_cannot_be_reached_is_no_diagnosis(tmp_path: Path) -> None:
    found = await diagnose("http://127.0.0.1:9", tmp_path / "diagnosis.json")
    assert found["document"] is None
    assert found["exit_code"] == 4
    assert "127.0.0.1:9" in found["errors"]


async def test_the_relay_passes_requests_and_answers_on(tmp_path: Path) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        writer.close()

    server = await asyncio.start_unix_server(echo, tmp_path / "s")
    async with server, relayed(tmp_path / "s") as url:
        host, port = url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"hello\n")
        assert await reader.read() == b"HELLO\n"
        writer.close()


async def test_connections_that_are_open_end_with_the_relay(tmp_path: Path) -> None:
    has_arrived = asyncio.Event()

    async def wait(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        has_arrived.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_unix_server(wait, tmp_path / "s")
    async with server:
        async with relayed(tmp_path / "s") as url:
            host, port = url.removeprefix("http://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(b"hello\n")
            await asyncio.wait_for(has_arrived.wait(), 60)
        with suppress(ConnectionResetError):
            assert await asyncio.wait_for(reader.read(), 60) == b""
        writer.close()
