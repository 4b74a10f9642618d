"""No part of a request that was refused is in the audit file or in the log, whatever was sent."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from paceline.runtime.gateway.settings import KeySettings
from unit.gateway.conftest import Serve, Served

SECRET = "s3cret-0123456789abcdef"
URL = "http://127.0.0.1:1"
REFUSED: list[tuple[str, str, Any]] = [
    *(
        ("POST", "/admin/replicas", body)
        for body in (
            {"url": URL, "api_key": SECRET},
            {"url": URL, "Key": SECRET},
            {"url": URL, "key ": SECRET},
            {"url": URL, SECRET: 1},
            {"url": URL, "key": {"value": SECRET}},
            {"url": URL, "key": [SECRET]},
            {"url": URL, "key": f"two words {SECRET}"},
            {"url": URL, "key_file": f"/run/{SECRET}"},
            {"url": f"http://user:{SECRET}@127.0.0.1:2"},
            {"url": f"http://{SECRET}@127.0.0.1:2"},
            {"url": f"{URL}/?token={SECRET}"},
            {"url": f"{URL}/{SECRET}"},
            {"url": f"{URL}#{SECRET}"},
            {"url": [f"{URL}/{SECRET}"]},
            {"dns": f"user:{SECRET}@host:1"},
            {"url": URL, "name": f"Bearer {SECRET}"},
            {"url": URL, "dialect": SECRET},
            {"url": URL, "drafts": SECRET},
            {"url": URL, "max_in_flight": SECRET},
            {"url": URL, "model": f" {SECRET}"},
            {"url": URL, "revision": SECRET * 100},
            {},
        )
    ),
    ("PATCH", "/admin/replicas", {"name": SECRET, "draining": True}),
    ("PATCH", "/admin/replicas", {"name": SECRET, "restart": True}),
    ("PATCH", "/admin/replicas", {"name": "r0", "draining": SECRET}),
    ("PATCH", "/admin/replicas", {"name": "r0", "draining": True, "key": SECRET}),
    ("DELETE", f"/admin/replicas?name={SECRET}", None),
    ("DELETE", f"/admin/replicas?name=r0&token={SECRET}", None),
    ("DELETE", f"/admin/replicas?{SECRET}", None),
    ("DELETE", f"/admin/replicas/{SECRET}", None),
    ("POST", f"/{SECRET}", {"a": 1}),
    ("PATCH", f"/admin/governor?replica={SECRET}", {"draft_length": 1}),
    ("PATCH", "/admin/governor", {"policy": SECRET}),
    ("PATCH", "/admin/governor", {"policy": "off", "token": SECRET}),
    ("PATCH", "/admin/governor", {"policy": "off", "policy_parameters": {SECRET: SECRET}}),
    ("POST", "/admin/draft", {"draft": f"https://user:{SECRET}@hub/draft"}),
    ("POST", "/admin/draft", {"draft": "ngram", "hf_token": SECRET}),
    ("POST", "/admin/draft", {"draft": "ngram", "allow_outage": SECRET}),
    ("POST", "/admin/recording", {"action": SECRET}),
    ("POST", "/admin/recording", {"action": "start", "folder": SECRET}),
    ("POST", "/admin/recording", {"action": "start", "max_bytes": SECRET}),
    ("POST", "/dashboard/login", f"key={SECRET}"),
    ("POST", f"/dashboard/login?key={SECRET}", f"key={SECRET}"),
    ("POST", f"/dashboard/{SECRET}", "x"),
    ("POST", "/admin/replicas", f'{{"key": "{SECRET}"'),
    ("POST", "/admin/replicas", f'["{SECRET}"]'),
    ("POST", "/admin/replicas", f"key={SECRET}"),
    ("POST", "/admin/replicas", f'{{"key": "{SECRET}", "key": "{SECRET}"}}'),
]  # fmt: skip


async def send(served: Served, method: str, path: str, body: Any) -> int:
    """The status. A text is sent as it is; one of the login as a form."""
    headers = {"content-type": "application/json", "cookie": f"session={SECRET}"}
    if path.startswith("/dashboard"):
        headers["content-type"] = "application/x-www-form-urlencoded"
    content = body if isinstance(body, str) or body is None else json.dumps(body)
    answer = await served.admin.request(method, path, content=content, headers=headers)
    return answer.status_code


@pytest.mark.parametrize("has_file", [True, False], ids=["audit file", "log"])
async def test_no_part_of_a_refused_change_is_kept(
    serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture, has_file: bool
) -> None:
    caplog.set_level(logging.DEBUG, logger="paceline")
    keys = KeySettings(audit_file=tmp_path / "audit" if has_file else None)
    num_entries = 0
    async with serve(keys=keys) as served:
        for method, path, body in REFUSED:
            assert await send(served, method, path, body) >= 400, (method, path, body)
            num_entries += 1
            kept = caplog.text + ((tmp_path / "audit").read_text() if has_file else "")
            assert SECRET not in kept, (method, path, body)
    assert kept.count('"status":4') + kept.count('"status":5') == num_entries


async def test_a_refused_change_is_described_by_the_fields_that_are_known(
    serve: Serve, tmp_path: Path
) -> None:
    keys = KeySettings(audit_file=tmp_path / "audit")
    async with serve(keys=keys) as served:
        await send(served, "POST", "/admin/replicas", {"url": URL, "name": "a", "Key": SECRET})
        await send(served, "PATCH", "/admin/replicas", {"name": "r9", "draining": True})
        await send(served, "DELETE", "/admin/replicas?name=r0&x=1", None)
    added, drained, removed = map(json.loads, (tmp_path / "audit").read_text().splitlines())
    assert added["change"] == {"url": "(not checked)", "name": "(not checked)", "unknown_fields": 1}
    assert (added["path"], added["error"]) == ("/admin/replicas", "unknown_field")
    assert drained["change"] == {"name": "(unknown)", "draining": True}
    assert removed["query"] == "name=r0&(unknown)"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/admin/recording", {"action": "start", "max_bytes": 10**30}),
        ("/admin/recording", {"action": "start", "max_seconds": True}),
        ("/admin/replicas", {"url": URL, "max_in_flight": 10**30}),
        ("/admin/replicas", {"url": URL, "max_tokens_in_flight": -(10**30)}),
        ("/admin/draft", {"draft": "a\0b"}),
        ("/admin/draft", {"draft": "\ud800"}),
        ("/admin/draft", {"draft": "x" * 5000}),
    ],
)
async def test_a_value_that_no_message_can_hold_is_refused(
    serve: Serve, tmp_path: Path, path: str, body: dict[str, Any]
) -> None:
    keys = KeySettings(audit_file=tmp_path / "audit")
    async with serve(keys=keys) as served:
        assert await send(served, "POST", path, body) == 400
    (entry,) = map(json.loads, (tmp_path / "audit").read_text().splitlines())
    assert entry["status"] == 400


@pytest.mark.parametrize("parameters", [{"a": "x" * 5000}, {"a": [1.5] * 2000}])
async def test_parameters_of_a_policy_that_are_long_are_refused(
    serve: Serve, tmp_path: Path, parameters: dict[str, Any]
) -> None:
    keys = KeySettings(audit_file=tmp_path / "audit")
    async with serve(keys=keys) as served:
        body = {"policy": "off", "policy_parameters": parameters}
        assert await send(served, "PATCH", "/admin/governor", body) == 400
    (entry,) = map(json.loads, (tmp_path / "audit").read_text().splitlines())
    assert (entry["status"], entry["change"]["policy_parameters"]) == (400, "(not checked)")
