"""Replicas are added, drained and removed while the gateway runs."""

from __future__ import annotations

import asyncio

import pytest

from paceline.runtime.gateway import Replica, ReplicaEntry
from unit.gateway.conftest import FixedReplicas, chat, until
from unit.gateway.fake_engine import MODEL
from unit.gateway.fleet.fake_remote import FakeRemote
from unit.gateway.running_fleet import CHAT, running


async def test_replicas_are_added_at_run_time_and_warmed_up_first() -> None:
    async with FakeRemote() as remote, running() as it:
        added = await it.admin.post("/admin/replicas", json={"url": remote.url, "name": "a"})
        assert (added.status_code, added.json()) == (201, {"name": "a", "state": "starting"})
        await it.until_state("a", "ready")
        assert remote.num_finished == 1
        described = (await it.replicas())["a"]
        described["last_poll_age_s"] = described["load"] = described["load_failure"] = None
        assert described == {
            "name": "a", "state": "ready", "reason": None, "model": MODEL,
            "other_models": [], "in_flight": 0,
            "max_in_flight": None, "max_tokens_in_flight": None, "origin": "url", "entry": "a",
            "address_kind": "http",
            "url": remote.url, "dialect": "vllm", "drafts": False, "draft": None,
            "honours_draft_caps": True, "draining": False,
            "revision": None, "version": None,
            "has_governor": False, "max_model_len": 2048, "restarts": None,
            "planned_restarts": None,
            "last_poll_age_s": None, "load": None, "load_failure": None,
            "accepted_fraction": None, "seconds_per_token": None,
        }  # fmt: skip


async def test_conflicting_changes_get_a_409() -> None:
    local = FixedReplicas([Replica("engine-0", "/no/such.sock", MODEL, "down")])
    async with running(ReplicaEntry(url="http://127.0.0.1:1", name="a"), local=local) as it:
        for request in (
            {"url": "http://127.0.0.1:1/", "name": "b"},
            {"url": "http://127.0.0.1:2", "name": "a"},
            {"url": "http://127.0.0.1:2", "name": "engine-0"},
        ):
            answer = await it.admin.post("/admin/replicas", json=request)
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "replica_exists")
        answer = await it.admin.delete("/admin/replicas", params={"name": "engine-0"})
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (409, "replica_not_removable")
        assert set(await it.replicas()) == {"engine-0", "a"}


@pytest.mark.parametrize(
    ("request_body", "param"),
    [
        ({}, None),
        ({"url": "127.0.0.1:1"}, "url"),
        ({"url": 5}, "url"),
        ({"url": "http://a:1", "drafts": 1}, "drafts"),
        ({"url": "http://a:1", "max_in_flight": True}, "max_in_flight"),
        ({"url": "http://a:1", "max_in_flight": 0}, "max_in_flight"),
        ({"url": "http://a:1", "max_tokens_in_flight": 0}, "max_tokens_in_flight"),
        ({"url": "http://a:1", "dialect": "ollama"}, "dialect"),
        ({"url": "http://a:1", "key_file": "/etc/shadow"}, "key_file"),
        ({"url": "http://a:1", "weight": 2}, "weight"),
    ],
)
async def test_invalid_entries_get_a_400(
    request_body: dict[str, object], param: str | None
) -> None:
    async with running() as it:
        answer = await it.admin.post("/admin/replicas", json=request_body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
        assert await it.replicas() == {}


async def test_a_file_of_the_gateway_machine_cannot_be_sent_to_a_replica() -> None:
    async with running() as it:
        request = {"url": "http://a:1", "key_file": "/etc/shadow"}
        answer = await it.admin.post("/admin/replicas", json=request)
        assert answer.status_code == 400
        assert "give the key itself, as key" in answer.json()["error"]["message"]


async def test_a_replica_is_drained_and_returned_to_service() -> None:
    async with FakeRemote() as a, FakeRemote() as b:
        entries = (ReplicaEntry(url=a.url, name="a"), ReplicaEntry(url=b.url, name="b"))
        async with running(*entries) as it:
            await it.until_state("a", "ready")
            await it.until_state("b", "ready")
            answer = await it.admin.patch("/admin/replicas", json={"name": "a", "draining": True})
            assert answer.json() == {"name": "a", "draining": True, "in_flight": 0}
            described = (await it.replicas())["a"]
            assert (described["state"], described["reason"]) == (
                "draining", "drained by an operator"
            )  # fmt: skip
            before = a.num_finished
            for _ in range(4):
                assert (await it.http.post(CHAT, json=chat())).status_code == 200
            assert a.num_finished == before
            await it.admin.patch("/admin/replicas", json={"name": "a", "draining": False})
            assert it.state("a") == "ready"


async def test_a_local_engine_can_be_drained() -> None:
    async with FakeRemote() as engine:
        local = FixedReplicas([Replica("engine-0", engine.url, MODEL, "ready")])
        async with running(local=local) as it:
            await it.admin.patch("/admin/replicas", json={"name": "engine-0", "draining": True})
            assert it.state("engine-0") == "draining"
            assert (await it.replicas())["engine-0"]["draining"] is True
            assert (await it.http.post(CHAT, json=chat())).status_code == 503
            await it.admin.patch("/admin/replicas", json={"name": "engine-0", "draining": False})
            assert (await it.http.post(CHAT, json=chat())).status_code == 200


async def test_a_stream_completes_on_a_replica_that_is_being_removed() -> None:
    async with FakeRemote() as remote, running(ReplicaEntry(url=remote.url, name="a")) as it:
        await it.until_state("a", "ready")
        remote.mode = "drip"
        remote.tokens = ["x "] * 40
        async with it.http.stream("POST", CHAT, json=chat(stream=True)) as stream:
            answer = await it.admin.delete("/admin/replicas", params={"name": "a"})
            assert answer.json() == {"name": "a", "state": "draining", "in_flight": 1}
            assert it.state("a") == "draining"
            conflict = await it.admin.patch(
                "/admin/replicas", json={"name": "a", "draining": False}
            )
            assert conflict.status_code == 409
            assert (await it.http.post(CHAT, json=chat())).status_code == 503
            text = (await stream.aread()).decode()
        assert text.endswith("data: [DONE]\n\n")
        assert text.count('"x "') == 40
        await it.until_state("a", None)


async def test_an_idle_replica_is_removed_at_once_and_can_be_added_again() -> None:
    async with FakeRemote() as remote, running(ReplicaEntry(url=remote.url, name="a")) as it:
        answer = await it.admin.delete("/admin/replicas", params={"name": "a"})
        assert answer.json() == {"name": "a", "state": "removed", "in_flight": 0}
        assert await it.replicas() == {}
        added = await it.admin.post("/admin/replicas", json={"url": remote.url, "name": "a"})
        assert added.status_code == 201
        await it.until_state("a", "ready")


async def test_unknown_names_get_a_404() -> None:
    async with running(ReplicaEntry(url="http://127.0.0.1:1", name="a")) as it:
        patched = await it.admin.patch("/admin/replicas", json={"name": "b", "draining": True})
        deleted = await it.admin.delete("/admin/replicas", params={"name": "b"})
        for answer in (patched, deleted):
            assert answer.status_code == 404
            message = answer.json()["error"]["message"]
            assert message == "There is no replica 'b'; known replicas: a."


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"name": "a"}, "draining"),
        ({"name": "a", "draining": "yes"}, "draining"),
        ({"draining": True}, "name"),
        ({"name": "a", "draining": True, "x": 1}, "x"),
    ],
)
async def test_invalid_changes_get_a_400(body: dict[str, object], param: str) -> None:
    async with running(ReplicaEntry(url="http://127.0.0.1:1", name="a")) as it:
        answer = await it.admin.patch("/admin/replicas", json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
        assert (await it.admin.delete("/admin/replicas")).status_code == 400
        assert (await it.replicas())["a"]["draining"] is False


async def test_adding_and_removing_replicas_leaks_no_tasks() -> None:
    async with running() as it:
        before = _fleet_tasks()
        for index in range(50):
            url = f"http://127.0.0.1:{index + 1}"
            await it.admin.post("/admin/replicas", json={"url": url, "name": f"a{index}"})
        assert _fleet_tasks() == before + 50
        for index in range(50):
            await it.admin.delete("/admin/replicas", params={"name": f"a{index}"})
        await until(lambda: _fleet_tasks() == before)
        assert await it.replicas() == {}
    assert _fleet_tasks() == 0


def _fleet_tasks() -> int:
    return sum(task.get_name().startswith("fleet: ") for task in asyncio.all_tasks())


async def test_an_address_added_at_run_time_is_not_quoted() -> None:
    """It may be any host that this machine reaches; one in the configuration is quoted."""
    async with FakeRemote() as remote:
        remote.mode = "refuse"
        remote.refusal = (500, {"error": {"message": "s3cret text"}})
        configured = ReplicaEntry(url=remote.url, name="configured")
        async with running(configured) as it:
            url = remote.url.replace("127.0.0.1", "localhost")
            await it.admin.post("/admin/replicas", json={"url": url, "name": "added"})
            await it.until_state("added", "down")
            await it.until_state("configured", "down")
            described = await it.replicas()
            assert described["configured"]["reason"].endswith("answered 500: s3cret text")
            assert described["added"]["reason"].endswith("answered 500")


async def test_a_server_that_is_not_http_is_not_quoted_either() -> None:
    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-s3cret\r\n")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, running() as it:
        await it.admin.post("/admin/replicas", json={"url": f"http://127.0.0.1:{port}"})
        await it.until_state(f"127.0.0.1:{port}", "down")
        assert "s3cret" not in (await it.admin.get("/admin/replicas")).text
