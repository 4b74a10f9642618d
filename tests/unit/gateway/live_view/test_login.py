"""With admin keys: the data need one, and a browser logs in."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from paceline.runtime.gateway.keys.file import change_text
from paceline.runtime.gateway.keys.record import join_key, render_line
from paceline.runtime.gateway.keys.roles import Role
from paceline.runtime.gateway.settings import KeySettings
from unit.gateway.conftest import Serve, Served
from unit.gateway.keys.records import SECRET, record

KEY = join_key("readaaaa", SECRET)
BROWSER = {"accept": "text/html,application/xhtml+xml"}
LOGIN = "/dashboard/login"


@pytest.fixture
def keys(tmp_path: Path) -> KeySettings:
    path = tmp_path / "admin-keys"
    line = render_line(record(id="readaaaa", tenant="watch", role=Role.READ))
    change_text(path, lambda _: line)
    return KeySettings(admin_key_file=path, audit_file=tmp_path / "audit")


def audited(keys: KeySettings) -> list[dict[str, Any]]:
    assert keys.audit_file is not None
    return [json.loads(line) for line in keys.audit_file.read_text().splitlines()]


async def log_in(served: Served, key: str = KEY, **options: Any) -> httpx.Response:
    return await served.admin.post(LOGIN, data={"key": key}, **options)


async def test_without_a_key_there_are_no_data(serve: Serve, keys: KeySettings) -> None:
    async with serve(keys=keys) as served:
        for path in ("/dashboard/state", "/dashboard/events", "/dashboard"):
            answer = await served.admin.get(path)
            assert answer.status_code == 401, path
            assert answer.headers["www-authenticate"] == "Bearer"
            assert "log in at /dashboard/login" in answer.json()["error"]["message"]


async def test_a_browser_is_led_to_the_login(serve: Serve, keys: KeySettings) -> None:
    async with serve(keys=keys) as served:
        answer = await served.admin.get("/dashboard", headers=BROWSER)
        assert (answer.status_code, answer.headers["location"]) == (303, LOGIN)
        page = await served.admin.get(LOGIN, headers=BROWSER)
        assert page.status_code == 200
        assert 'type="password"' in page.text
        assert "<script" not in page.text
        assert (await served.admin.get("/dashboard/style.css")).status_code == 200


async def test_the_key_in_the_header_opens_the_view_too(serve: Serve, keys: KeySettings) -> None:
    async with serve(keys=keys) as served:
        headers = {"authorization": f"Bearer {KEY}"}
        assert (await served.admin.get("/dashboard/state", headers=headers)).status_code == 200
        wrong = {"authorization": f"Bearer {KEY}x"}
        assert (await served.admin.get("/dashboard/state", headers=wrong)).status_code == 401


async def test_a_login_opens_the_view_and_its_events(serve: Serve, keys: KeySettings) -> None:
    async with serve(keys=keys) as served:
        answer = await log_in(served)
        assert (answer.status_code, answer.headers["location"]) == (303, "/dashboard")
        page = await served.admin.get("/dashboard", headers=BROWSER)
        assert "Log out" in page.text
        async with served.admin.stream("GET", "/dashboard/events") as events:
            assert events.status_code == 200
            async for line in events.aiter_lines():
                if line.startswith("data: "):
                    break


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(
    serve: Serve, keys: KeySettings
) -> None:
    async with serve(keys=keys) as served:
        cookie = (await log_in(served)).headers["set-cookie"]
        name, _, rest = cookie.partition("=")
        assert name == f"paceline_session_{served.gateway.admin_port}"
        assert rest.split("; ")[1:] == [
            "HttpOnly", "SameSite=Strict", "Path=/dashboard", "Max-Age=28800",
        ]  # fmt: skip
        assert SECRET not in cookie


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("localhost:9001", "paceline_session_9001"),  # a tunnel
        ("[::1]:9002", "paceline_session_9002"),
        ("[::1]", "paceline_session"),
        ("paceline.example", "paceline_session"),
        ("localhost:1;Domain=x", "paceline_session"),
    ],
)
async def test_the_cookie_is_named_after_the_port_that_the_browser_uses(
    serve: Serve, keys: KeySettings, host: str, name: str
) -> None:
    async with serve(keys=keys) as served:
        cookie = (await log_in(served, headers={"host": host})).headers["set-cookie"]
        assert cookie.partition("=")[0] == name


async def test_a_new_login_of_a_browser_ends_its_old_session(
    serve: Serve, keys: KeySettings
) -> None:
    async with serve(keys=keys) as served:
        cookie = (await log_in(served)).headers["set-cookie"].partition(";")[0]
        await log_in(served)  # the client sends the cookie along
        answer = await served.admin.get("/dashboard/state")
        assert answer.status_code == 200
        served.admin.cookies.clear()
        old = await served.admin.get("/dashboard/state", headers={"cookie": cookie})
        assert old.status_code == 401


async def test_the_cookie_is_no_key_for_the_rest_of_the_port(
    serve: Serve, keys: KeySettings
) -> None:
    async with serve(keys=keys) as served:
        cookie = (await log_in(served)).headers["set-cookie"].partition(";")[0]
        answer = await served.admin.get("/admin/replicas", headers={"cookie": cookie})
        assert answer.status_code == 401


async def test_a_wrong_key_gets_the_form_again(serve: Serve, keys: KeySettings) -> None:
    async with serve(keys=keys) as served:
        answer = await log_in(served, f"{KEY}x")
        assert answer.status_code == 401
        assert "This key is unknown" in answer.text
        assert 'type="password"' in answer.text
        assert "set-cookie" not in answer.headers
        assert (await served.admin.get("/dashboard/state")).status_code == 401


async def test_each_login_and_logout_is_in_the_audit_log_without_the_key(
    serve: Serve, keys: KeySettings
) -> None:
    async with serve(keys=keys) as served:
        await log_in(served, "wrong")
        await log_in(served)
        await served.admin.post("/dashboard/logout")
    wrong, right, out = audited(keys)
    assert (wrong["path"], wrong["status"], wrong["error"]) == (LOGIN, 401, "invalid_api_key")
    assert (right["status"], right["holder"], right["role"]) == (303, "watch", "read")
    assert (out["path"], out["holder"]) == ("/dashboard/logout", "watch")
    assert keys.audit_file is not None
    assert SECRET not in keys.audit_file.read_text()


async def test_a_logout_ends_the_session_on_the_server(serve: Serve, keys: KeySettings) -> None:
    async with serve(keys=keys) as served:
        cookie = (await log_in(served)).headers["set-cookie"].partition(";")[0]
        answer = await served.admin.post("/dashboard/logout")
        assert (answer.status_code, answer.headers["location"]) == (303, LOGIN)
        kept = {"cookie": cookie}
        assert (await served.admin.get("/dashboard/state", headers=kept)).status_code == 401


async def test_a_revoked_key_ends_its_sessions_and_their_streams(
    serve: Serve, keys: KeySettings
) -> None:
    async with serve(keys=keys) as served:
        await log_in(served)
        async with served.admin.stream("GET", "/dashboard/events") as events:
            lines = events.aiter_lines()
            assert await anext(lines) == "retry: 1000"
            assert keys.admin_key_file is not None
            change_text(keys.admin_key_file, lambda _: "")
            async with asyncio.timeout(60):
                async for _ in lines:  # it ends
                    pass
        assert (await served.admin.get("/dashboard/state")).status_code == 401


async def test_an_open_stream_ends_with_the_logout(serve: Serve, keys: KeySettings) -> None:
    async with serve(keys=keys) as served:
        await log_in(served)
        async with served.admin.stream("GET", "/dashboard/events") as events:
            lines = events.aiter_lines()
            await anext(lines)
            await served.admin.post("/dashboard/logout")
            async with asyncio.timeout(60):
                async for _ in lines:
                    pass


@pytest.mark.parametrize("path", [LOGIN, "/dashboard/logout"])
async def test_another_site_cannot_log_in_or_out(
    serve: Serve, keys: KeySettings, path: str
) -> None:
    async with serve(keys=keys) as served:
        headers = {"sec-fetch-site": "cross-site"}
        answer = await served.admin.post(path, data={"key": KEY}, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross_site")
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", [LOGIN, "/dashboard/logout"])
@pytest.mark.parametrize(
    "origin", ["http://127.0.0.1:1", "http://evil.example", "null", "127.0.0.1:PORT", "file://"]
)
async def test_without_fetch_metadata_a_foreign_origin_cannot_log_in_or_out(
    serve: Serve, keys: KeySettings, path: str, origin: str
) -> None:
    """Browsers send no `Sec-Fetch-Site` over plain http on a network."""
    async with serve(keys=keys) as served:
        headers = {"origin": origin.replace("PORT", str(served.gateway.admin_port))}
        answer = await served.admin.post(path, data={"key": KEY}, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "cross_site")
        assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("10.0.0.7:8001", "http://10.0.0.7:8001"),
        ("paceline.example", "https://paceline.example"),  # a proxy speaks TLS
        ("paceline.example:443", "https://paceline.example"),
        ("Paceline.example:80", "http://paceline.example"),
    ],
)
async def test_the_own_page_can_log_in(
    serve: Serve, keys: KeySettings, host: str, origin: str
) -> None:
    async with serve(keys=keys) as served:
        answer = await log_in(served, headers={"host": host, "origin": origin})
        assert answer.status_code == 303


async def test_the_pages_name_their_origin_to_their_own_server(
    serve: Serve, keys: KeySettings
) -> None:
    """With `no-referrer` a browser sends `Origin: null` with our own form."""
    async with serve(keys=keys) as served:
        page = await served.admin.get(LOGIN, headers=BROWSER)
        assert page.headers["referrer-policy"] == "same-origin"


async def test_the_form_is_bounded(serve: Serve, keys: KeySettings) -> None:
    async with serve(keys=keys) as served:
        assert (await log_in(served, "x" * 5000)).status_code == 413
        as_json = await served.admin.post(LOGIN, json={"key": KEY})
        assert as_json.status_code == 415
