"""Each role may make its own requests on the admin port, and every change is in the audit log."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from paceline.runtime.gateway import serve_gateway
from paceline.runtime.gateway.admin.audit import AuditEntry
from paceline.runtime.gateway.keys.file import change_text
from paceline.runtime.gateway.keys.record import KeysUnusable, join_key, render_line
from paceline.runtime.gateway.keys.roles import Role
from paceline.runtime.gateway.settings import KeySettings
from unit.gateway.conftest import SETTINGS, FixedReplicas, Serve, Served
from unit.gateway.keys.records import SECRET, record

KEY_IDS = {Role.READ: "readaaaa", Role.OPERATE: "operaaaa", Role.ADMIN: "adminaaa"}
OLD = "oldaaaaa"
"""A key from before there were roles."""
ADDED = {"url": "http://127.0.0.1:9", "name": "added", "key": "s3cret"}
REQUESTS: dict[str, tuple[str, str, dict[str, Any] | None, Role]] = {
    "list": ("GET", "/admin/replicas", None, Role.READ),
    "governors": ("GET", "/admin/governor", None, Role.READ),
    "govern": ("PATCH", "/admin/governor", {"draft_length": 1}, Role.OPERATE),
    "drafts": ("GET", "/admin/draft", None, Role.READ),
    "swap draft": ("POST", "/admin/draft", {"draft": "ngram"}, Role.ADMIN),
    "recording": ("GET", "/admin/recording", None, Role.READ),
    "record": ("POST", "/admin/recording", {"action": "start"}, Role.OPERATE),
    "delete recording": ("DELETE", "/admin/recording", None, Role.OPERATE),
    "capture": ("GET", "/admin/capture", None, Role.READ),
    "delete capture": ("DELETE", "/admin/capture", None, Role.OPERATE),
    "drain": ("PATCH", "/admin/replicas", {"name": "r0", "draining": False}, Role.OPERATE),
    "add": ("POST", "/admin/replicas", ADDED, Role.ADMIN),
    "remove": ("DELETE", "/admin/replicas?name=added", None, Role.ADMIN),
}


@pytest.fixture
def keys(tmp_path: Path) -> KeySettings:
    path = tmp_path / "admin-keys"
    lines = [
        render_line(record(id=key_id, tenant=f"{role}-er", role=role))
        for role, key_id in KEY_IDS.items()
    ]
    change_text(path, lambda _: "".join(lines) + render_line(record(id=OLD, tenant="old")))
    return KeySettings(admin_key_file=path, audit_file=tmp_path / "audit")


async def send(served: Served, name: str, key_id: str | None) -> httpx.Response:
    method, path, body, _ = REQUESTS[name]
    headers = {} if key_id is None else {"authorization": f"Bearer {join_key(key_id, SECRET)}"}
    return await served.admin.request(method, path, json=body, headers=headers)


def audited(keys: KeySettings) -> list[dict[str, Any]]:
    assert keys.audit_file is not None
    return [json.loads(line) for line in keys.audit_file.read_text().splitlines()]


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("name", list(REQUESTS))
async def test_a_key_may_do_what_its_role_says(
    serve: Serve, keys: KeySettings, role: Role, name: str
) -> None:
    async with serve(keys=keys) as served:
        answer = await send(served, name, KEY_IDS[role])
        needed = REQUESTS[name][3]
        if role.includes(needed):
            assert answer.status_code not in (401, 403)
        else:
            error = answer.json()["error"]
            assert (answer.status_code, error["code"]) == (403, "role_missing")
            assert f"the role {role}" in error["message"]
            assert f"--role {needed}" in error["message"]


async def test_a_key_without_a_role_may_do_everything(serve: Serve, keys: KeySettings) -> None:
    async with serve(keys=keys) as served:
        assert (await send(served, "add", OLD)).status_code == 201
        assert (await send(served, "remove", OLD)).status_code == 200


async def test_every_change_is_in_the_audit_log_once_and_no_secret(
    serve: Serve, keys: KeySettings
) -> None:
    async with serve(keys=keys) as served:
        for name in ("list", "add", "drain", "remove"):
            await send(served, name, KEY_IDS[Role.ADMIN])
        await send(served, "add", KEY_IDS[Role.READ])
        await send(served, "drain", None)
    add, drain, remove, refused, unknown = audited(keys)
    assert add["change"] == {**ADDED, "key": "(secret)"}
    assert (add["method"], add["path"], add["status"], add["error"]) == (
        "POST", "/admin/replicas", 201, None,
    )  # fmt: skip
    assert (add["holder"], add["key_id"], add["role"]) == ("admin-er", "adminaaa", "admin")
    assert (add["client"], add["at"][:2]) == ("127.0.0.1", "20")
    assert (drain["change"], drain["status"]) == ({"name": "r0", "draining": False}, 200)
    assert (remove["query"], remove["status"]) == ("name=added", 200)
    assert (refused["holder"], refused["status"], refused["error"]) == (
        "read-er", 403, "role_missing",
    )  # fmt: skip
    assert (unknown["holder"], unknown["status"]) == (None, 401)
    assert keys.audit_file is not None
    assert SECRET not in keys.audit_file.read_text()
    assert stat.S_IMODE(keys.audit_file.stat().st_mode) == 0o600


def test_of_a_long_change_the_start_is_kept_without_secrets() -> None:
    entry = AuditEntry("now", "POST", "/admin/replicas", "", None)
    entry.set_change({"key": SECRET, "name": "x" * 100_000})
    assert entry.change is not None
    assert len(str(entry.change)) < 5000
    assert SECRET not in str(entry.change)


async def test_a_change_that_fails_is_in_the_audit_log_with_its_error(
    serve: Serve, keys: KeySettings
) -> None:
    async with serve(keys=keys) as served:
        await send(served, "remove", KEY_IDS[Role.ADMIN])
    (entry,) = audited(keys)
    assert (entry["status"], entry["error"]) == (404, "replica_not_found")


async def test_without_a_file_the_entries_are_in_the_log(
    serve: Serve, keys: KeySettings, caplog: pytest.LogCaptureFixture
) -> None:
    async with serve(keys=replace(keys, audit_file=None)) as served:
        await send(served, "drain", KEY_IDS[Role.OPERATE])
    (line,) = [r.getMessage() for r in caplog.records if "admin change" in r.getMessage()]
    assert json.loads(line.partition(": ")[2])["holder"] == "operate-er"


async def test_an_entry_that_the_file_does_not_take_is_in_the_log(
    serve: Serve, keys: KeySettings, caplog: pytest.LogCaptureFixture
) -> None:
    assert keys.audit_file is not None
    async with serve(keys=keys) as served:
        keys.audit_file.unlink()
        keys.audit_file.mkdir()
        assert (await send(served, "drain", KEY_IDS[Role.OPERATE])).status_code == 200
    assert "operate-er" in caplog.text


async def test_an_audit_file_that_cannot_be_written_refuses_the_start(keys: KeySettings) -> None:
    unwritable = replace(keys, audit_file=Path("/proc/none/audit"))
    with pytest.raises(KeysUnusable, match="cannot be written"):
        async with serve_gateway(replace(SETTINGS, keys=unwritable), FixedReplicas([])):
            pass
