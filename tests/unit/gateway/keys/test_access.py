"""Each port serves only its own keys, and engines see the tenant's salt but no key."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import httpx
import openai
import pytest

from paceline.runtime.gateway import serve_gateway
from paceline.runtime.gateway.http import listening
from paceline.runtime.gateway.keys import file as key_file
from paceline.runtime.gateway.keys.file import change_text
from paceline.runtime.gateway.keys.record import (
    KeyRecord,
    KeysUnusable,
    hash_secret,
    join_key,
    render_line,
)
from paceline.runtime.gateway.keys.salt import read_or_create_secret, salt_of
from paceline.runtime.gateway.settings import KeySettings
from unit.gateway.conftest import SETTINGS, FixedReplicas, Serve, chat
from unit.gateway.fake_engine import MODEL

CHAT = "/v1/chat/completions"


def secret_of(key_id: str) -> str:
    return (key_id * 4).lower()


def bearer(key_id: str) -> dict[str, str]:
    return {"authorization": f"Bearer {join_key(key_id, secret_of(key_id))}"}


def line(key_id: str, tenant: str, *granted: str) -> str:
    return render_line(
        KeyRecord(
            id=key_id,
            tenant=tenant,
            secret_sha256=hash_secret(secret_of(key_id)),
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
            granted_fields=granted,
        )
    )


ACME, ACME_TOO, BETA, OPS = "acmeaaaa", "acmebbbb", "betaaaaa", "opsaaaaa"


@pytest.fixture
def keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KeySettings:
    """Two tenants, one of them with two keys, and an operator."""
    monkeypatch.setattr(key_file, "KEY_CHECK_PERIOD_S", 0.0)
    settings = KeySettings(file=tmp_path / "keys", admin_key_file=tmp_path / "admin-keys")
    text = line(ACME, "acme", "priority") + line(ACME_TOO, "acme") + line(BETA, "beta")
    change_text(tmp_path / "keys", lambda _: text)
    change_text(tmp_path / "admin-keys", lambda _: line(OPS, "ops"))
    return settings


def assert_unauthorized(answer: httpx.Response) -> None:
    assert answer.status_code == 401, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["code"]) == ("authentication_error", "invalid_api_key")
    assert answer.headers["www-authenticate"] == "Bearer"


async def test_only_a_known_key_is_served(serve: Serve, keys: KeySettings) -> None:
    x_api_key = {"x-api-key": join_key(ACME, secret_of(ACME))}
    twice = httpx.Headers([("authorization", bearer(i)["authorization"]) for i in (ACME, BETA)])
    async with serve(keys=keys) as served:
        for headers in ({}, bearer(OPS), x_api_key, twice):
            for path in (CHAT, "/v1/completions"):
                assert_unauthorized(await served.http.post(path, json=chat(), headers=headers))
            assert_unauthorized(await served.http.get("/v1/models", headers=headers))
        assert served.engine.num_begun == 0
        answer = await served.http.post(CHAT, json=chat(), headers=bearer(ACME))
        assert answer.status_code == 200
        assert (await served.http.get("/v1/models", headers=bearer(ACME))).status_code == 200
        assert await served.outcomes() == {"refused": 8, "completed": 1}


async def test_health_and_readiness_need_no_key(serve: Serve, keys: KeySettings) -> None:
    async with serve(keys=keys) as served:
        assert (await served.http.get("/health")).status_code == 200
        assert (await served.http.get("/ready")).status_code == 200


async def test_a_body_without_a_key_is_not_read(serve: Serve, keys: KeySettings) -> None:
    """The answer arrives although the body is never completed."""
    head = f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    async with serve(keys=keys) as served:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.gateway.port)
        writer.write(head.encode() + b"content-length: 1000\r\n\r\n{")
        async with asyncio.timeout(60):
            answer = await reader.read()  # until the gateway closes the connection
        writer.close()
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"\r\nconnection: close\r\n" in answer.lower()
    assert b'"invalid_api_key"' in answer


async def test_openais_client_raises_its_authentication_error(
    serve: Serve, keys: KeySettings
) -> None:
    async with serve(keys=keys) as served:
        client = openai.AsyncOpenAI(
            base_url=f"{served.gateway.url}/v1", api_key="sk-wrong", timeout=60
        )
        with pytest.raises(openai.AuthenticationError, match="is wrong or was revoked"):
            await client.models.list()
        known = client.with_options(api_key=join_key(ACME, secret_of(ACME)))
        assert [model.id for model in (await known.models.list()).data] == [MODEL]


async def test_a_revoked_key_is_refused_without_a_restart(serve: Serve, keys: KeySettings) -> None:
    async with serve(keys=keys) as served:
        assert (await served.http.get("/v1/models", headers=bearer(ACME))).status_code == 200
        assert keys.file is not None
        change_text(keys.file, lambda text: text.replace(line(ACME, "acme", "priority"), ""))
        assert_unauthorized(await served.http.get("/v1/models", headers=bearer(ACME)))
        assert (await served.http.get("/v1/models", headers=bearer(BETA))).status_code == 200


async def test_a_key_grants_its_fields_and_no_others(serve: Serve, keys: KeySettings) -> None:
    async with serve(keys=keys, granted_fields=frozenset({"ignore_eos", "cache_salt"})) as served:
        for key_id, field, value, status in (
            (ACME, "priority", 1, 200), (ACME_TOO, "priority", 1, 400), (BETA, "priority", 1, 400),
            (BETA, "ignore_eos", True, 200), (ACME, "kv_transfer_params", {}, 400),
            (ACME, "cache_salt", "x", 400),
        ):  # fmt: skip
            body = chat(**{field: value})
            answer = await served.http.post(CHAT, json=body, headers=bearer(key_id))
            assert answer.status_code == status, (key_id, field)


async def test_engines_get_the_salt_of_the_tenant_and_no_key(
    serve: Serve, keys: KeySettings
) -> None:
    """The engine gets the client's bytes with the tenant's salt, and nothing of the key."""
    sent = json.dumps(chat(temperature=0.50), indent=1).encode()
    async with serve(keys=keys) as served:
        for key_id in (ACME, ACME_TOO, BETA):
            headers = {**bearer(key_id), "content-type": "application/json"}
            assert (await served.http.post(CHAT, content=sent, headers=headers)).is_success
        bodies, engine_headers = served.engine.bodies, served.engine.headers
    assert keys.salt_path is not None
    secret = read_or_create_secret(keys.salt_path)
    salts = [json.loads(body).pop("cache_salt") for body in bodies]
    assert salts == [salt_of(secret, "acme"), salt_of(secret, "acme"), salt_of(secret, "beta")]
    for body, salt in zip(bodies, salts, strict=True):
        assert body.replace(b'"cache_salt":"%s",' % salt.encode(), b"") == sent
    assert "authorization" not in {name for headers in engine_headers for name in headers}
    assert secret_of(ACME) not in str(engine_headers) + str(bodies)


@pytest.mark.parametrize("dialect", ["sglang", "tgi", "llama.cpp"])
async def test_other_servers_get_no_salt(serve: Serve, keys: KeySettings, dialect: str) -> None:
    async with serve(keys=keys) as served:
        served.source.current = [replace(served.replicas[0], dialect=dialect)]
        await served.http.post(CHAT, json=chat(), headers=bearer(ACME))
        (body,) = served.engine.bodies
    assert json.loads(body) == chat()


async def test_without_a_file_of_keys_every_request_is_served_unchanged(serve: Serve) -> None:
    async with serve() as served:
        for headers in ({}, bearer(ACME), {"authorization": "Bearer sk-anything"}):
            assert (await served.http.post(CHAT, json=chat(), headers=headers)).is_success
        bodies, engine_headers = served.engine.bodies, served.engine.headers
    assert [json.loads(body) for body in bodies] == [chat()] * 3
    assert "authorization" not in {name for headers in engine_headers for name in headers}


async def test_the_admin_port_needs_its_own_key(serve: Serve, keys: KeySettings) -> None:
    async with serve(keys=keys) as served:
        for path in ("/admin/governor", "/admin/replicas", "/admin/else", "/dashboard/state"):
            for headers in ({}, bearer(ACME)):
                assert_unauthorized(await served.admin.get(path, headers=headers))
        change = {"draft_length": 1}
        assert_unauthorized(await served.admin.patch("/admin/governor", json=change))
        answer = await served.admin.get("/admin/replicas", headers=bearer(OPS))
        assert answer.status_code == 200
        named = {**bearer(OPS), "host": "gateway.example"}
        assert (await served.admin.get("/admin/replicas", headers=named)).status_code == 200


@pytest.mark.parametrize(("metrics_need_key", "status"), [(False, 200), (True, 401)])
async def test_metrics_need_the_key_where_the_settings_say_so(
    serve: Serve, keys: KeySettings, metrics_need_key: bool, status: int
) -> None:
    async with serve(keys=replace(keys, metrics_need_key=metrics_need_key)) as served:
        assert (await served.admin.get("/metrics")).status_code == status
        assert (await served.admin.get("/metrics", headers=bearer(OPS))).status_code == 200
        named = {"host": "evil.example"}
        answer = await served.admin.get("/metrics", headers=named)
        assert answer.status_code == (status if metrics_need_key else 403)


async def test_an_admin_port_on_the_network_answers_to_any_host_name_and_needs_its_key(
    serve: Serve, keys: KeySettings
) -> None:
    """Prometheus scrapes by the name of a service."""
    async with serve(keys=keys, admin_host="0.0.0.0") as served:
        url = f"http://127.0.0.1:{served.gateway.admin_port}"
        named = {"host": "paceline-admin:8001"}
        assert (await served.admin.get(f"{url}/metrics", headers=named)).status_code == 200
        assert_unauthorized(await served.admin.get(f"{url}/admin/replicas", headers=named))


@pytest.mark.parametrize("content", [None, "nonsense\n"])
async def test_a_file_that_cannot_be_used_refuses_the_start(
    keys: KeySettings, content: str | None
) -> None:
    assert keys.file is not None
    keys.file.unlink() if content is None else keys.file.write_text(content)
    reason = "does not exist" if content is None else "line 1: it is not a JSON object"
    with pytest.raises(KeysUnusable, match=reason):
        async with serve_gateway(replace(SETTINGS, keys=keys), FixedReplicas([])):
            pass


@pytest.mark.parametrize(
    ("host", "has_keys", "is_warned"),
    [("127.0.0.1", False, False), ("0.0.0.0", False, True), ("0.0.0.0", True, False)],
)
async def test_a_warning_is_logged_for_an_open_port_on_the_network(
    host: str,
    has_keys: bool,
    is_warned: bool,
    keys: KeySettings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    chosen = keys if has_keys else KeySettings()
    async with serve_gateway(replace(SETTINGS, host=host, keys=chosen), FixedReplicas([])):
        pass
    assert ("needs no key" in caplog.text) is is_warned


async def test_no_secret_is_ever_logged(
    serve: Serve, keys: KeySettings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serve(keys=keys) as served:
        served.engine.mode = "dead"
        for key_id in (ACME, BETA, OPS):
            await served.http.post(CHAT, json=chat(), headers=bearer(key_id))
            await served.admin.get("/admin/replicas", headers=bearer(key_id))
    ours = "".join(r.getMessage() for r in caplog.records if r.name.startswith("paceline"))
    assert "r0" in ours
    for key_id in (ACME, BETA, OPS):
        assert secret_of(key_id) not in ours
        assert hash_secret(secret_of(key_id)) not in ours


REBOUND = {"host": "evil.example:8000"}


async def test_a_data_port_without_keys_refuses_web_pages_of_other_sites(serve: Serve) -> None:
    """After DNS rebinding, a page's own name resolves to this machine."""
    async with serve() as served:
        for answer in (
            await served.http.post(CHAT, json=chat(), headers=REBOUND),
            await served.http.get("/v1/models", headers=REBOUND),
        ):
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "host_not_allowed")
        assert served.engine.num_begun == 0
        assert (await served.http.get("/health", headers=REBOUND)).status_code == 200
        for host in ("localhost:8000", "127.0.0.1", "[::1]:1"):
            answer = await served.http.post(CHAT, json=chat(), headers={"host": host})
            assert answer.status_code == 200


LOOPBACK = [
    *("127.1", "2130706433", "0x7f.1", "127.0.0.1", "127.0.0.2", "::ffff:127.0.0.1"),
    "LOCALHOST",
]


@pytest.mark.parametrize("host", LOOPBACK)
async def test_loopback_is_loopback_however_it_is_written(serve: Serve, host: str) -> None:
    async with serve(host=host) as served:
        address = served.gateway.sockets[0].getsockname()[0].removeprefix("::ffff:")
        url = f"http://{address}:{served.gateway.port}/v1/models"
        assert (await served.http.get(url, headers=REBOUND)).status_code == 403
        assert (await served.http.get(url)).status_code == 200


async def test_a_name_of_this_machine_is_loopback_if_its_address_is(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian gives the name of the machine the address 127.0.1.1."""
    resolve = listening.resolve
    monkeypatch.setattr(
        listening,
        "resolve",
        lambda host, *args: resolve("127.0.1.1" if host == "desk" else host, *args),
    )
    async with serve(host="desk") as served:
        url = f"http://127.0.1.1:{served.gateway.port}/v1/models"
        assert (await served.http.get(url, headers=REBOUND)).status_code == 403
        assert (await served.http.get(url, headers={"host": "desk:1"})).status_code == 200


@pytest.mark.parametrize("host", LOOPBACK)
async def test_the_admin_port_checks_host_headers_however_loopback_is_written(
    serve: Serve, keys: KeySettings, host: str
) -> None:
    async with serve(keys=keys, admin_host=host) as served:
        address = served.gateway.sockets[1].getsockname()[0].removeprefix("::ffff:")
        url = f"http://{address}:{served.gateway.admin_port}/metrics"
        assert (await served.admin.get(url, headers=REBOUND)).status_code == 403
        assert (await served.admin.get(url)).status_code == 200


async def test_allowed_hosts_are_served_and_checked_on_any_address(serve: Serve) -> None:
    async with serve(host="0.0.0.0", allowed_hosts=frozenset({"LLM.internal"})) as served:
        url = f"http://127.0.0.1:{served.gateway.port}{CHAT}"
        for host, status in (("llm.internal:80", 200), ("evil.example", 403)):
            answer = await served.http.post(url, json=chat(), headers={"host": host})
            assert answer.status_code == status


async def test_keys_and_addresses_on_the_network_allow_any_host(
    serve: Serve, keys: KeySettings
) -> None:
    async with serve(keys=keys) as served:
        answer = await served.http.post(CHAT, json=chat(), headers={**bearer(ACME), **REBOUND})
        assert answer.status_code == 200
    async with serve(host="0.0.0.0") as served:
        url = f"http://127.0.0.1:{served.gateway.port}{CHAT}"
        assert (await served.http.post(url, json=chat(), headers=REBOUND)).status_code == 200
