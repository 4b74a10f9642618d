"""A request that leads back to a gateway ends at once, and such a replica is never ready."""

from __future__ import annotations

import doctest
from collections.abc import Mapping

import httpx
import pytest

from paceline.runtime.gateway import ReplicaEntry, hops
from paceline.runtime.gateway.hops import HOPS_HEADER, add_hop, hops_of, new_gateway_id
from unit.gateway.conftest import chat, until
from unit.gateway.fake_engine import MODEL
from unit.gateway.fleet.fake_remote import FakeRemote
from unit.gateway.running_fleet import CHAT, Running, running

REASON = "the address leads back to this gateway"


async def add(it: Running, url: str, name: str, **fields: object) -> None:
    answer = await it.admin.post("/admin/replicas", json={"url": url, "name": name, **fields})
    assert answer.status_code == 201


async def num_requests(it: Running) -> float:
    lines = (await it.admin.get("/metrics")).text.splitlines()
    counts = [line for line in lines if line.startswith("paceline_requests_total{")]
    return sum(float(line.split()[-1]) for line in counts)


@pytest.mark.parametrize("dialect", ["vllm", "sglang", "llamacpp", "openai", "tgi"])
@pytest.mark.parametrize("fields", [{}, {"model": "other"}], ids=["any model", "one model"])
async def test_a_gateway_is_never_its_own_replica(
    dialect: str, fields: Mapping[str, object]
) -> None:
    async with FakeRemote() as remote, running(ReplicaEntry(url=remote.url, name="a")) as it:
        await it.until_state("a", "ready")
        await add(it, it.gateway.url, "me", dialect=dialect, **fields)
        await it.until_state("me", "down")
        assert REASON in (await it.replicas())["me"]["reason"]


async def test_an_address_that_begins_to_lead_back_is_down_at_the_next_poll() -> None:
    """A DNS name or a proxy may lead to another server than before."""
    async with FakeRemote() as remote, running(ReplicaEntry(url=remote.url, name="a")) as it:
        await it.until_state("a", "ready")
        remote.leads_back = True
        await it.until_state("a", "down")
        assert REASON in (await it.replicas())["a"]["reason"]


@pytest.mark.parametrize("port_name", ["port", "admin_port", "probe_port"])
@pytest.mark.parametrize("dialect", ["vllm", "openai", "tgi"])
@pytest.mark.parametrize("warm_up", [True, False])
async def test_no_port_of_a_gateway_is_its_replica(
    port_name: str, dialect: str, *, warm_up: bool
) -> None:
    """The probe port answers `/health` as a server does, and has no list of models."""
    async with running(probe_port=0, warm_up=warm_up) as it:
        url = f"http://127.0.0.1:{getattr(it.gateway, port_name)}"
        await add(it, url, "me", dialect=dialect, model="m2")
        await it.until_state("me", "down")
        assert REASON in (await it.replicas())["me"]["reason"]


@pytest.mark.parametrize("port_name", ["port", "admin_port", "probe_port"])
async def test_every_port_refuses_what_the_gateway_has_passed_on(port_name: str) -> None:
    """Whatever the path and the method; the answer repeats the id."""
    async with (
        FakeRemote() as remote,
        running(ReplicaEntry(url=remote.url, name="a"), probe_port=0) as it,
    ):
        await it.until_state("a", "ready")
        await it.http.post(CHAT, json=chat())
        own = remote.headers[-1][HOPS_HEADER]
        url = f"http://127.0.0.1:{getattr(it.gateway, port_name)}"
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            for method, path in (("GET", "/health"), ("POST", CHAT), ("DELETE", "/nothing")):
                answer = await client.request(
                    method, path, json=chat(), headers={HOPS_HEADER: f"{'0' * 16},{own}"}
                )
                assert (answer.status_code, answer.headers[HOPS_HEADER]) == (508, own)
                assert answer.json()["error"]["code"] == "leads_back"
                answer = await client.request(
                    method, path, json=chat(), headers={HOPS_HEADER: "0" * 16}
                )
                assert answer.status_code != 508


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {HOPS_HEADER: ""},
        {HOPS_HEADER: "0123456789abcdef"},
        {HOPS_HEADER: "0123456789abcdef,fedcba9876543210"},
    ],
)
async def test_a_508_of_another_server_is_a_failure_as_any_other(
    headers: dict[str, str],
) -> None:
    """A hosting provider answers so for a site over its limits."""
    async with (
        FakeRemote() as remote,
        running(ReplicaEntry(url=remote.url, name="a"), failures_before_down=100_000) as it,
    ):
        await it.until_state("a", "ready")
        remote.health_headers, remote.health = headers, 508
        before = remote.num_requests["/health"]
        await until(lambda: remote.num_requests["/health"] >= before + 5)
        assert it.state("a") == "ready"


async def test_a_server_that_keeps_answering_508_is_down_with_that_status() -> None:
    async with FakeRemote() as remote, running(ReplicaEntry(url=remote.url, name="a")) as it:
        await it.until_state("a", "ready")
        remote.health = 508
        await it.until_state("a", "down")
        reason = (await it.replicas())["a"]["reason"]
        assert "/health answered 508" in reason
        assert REASON not in reason


async def test_a_dns_name_that_selects_the_gateway_itself_brings_no_replica() -> None:
    async with running() as it:
        body = {"dns": f"localhost:{it.gateway.port}", "name": "svc"}
        assert (await it.admin.post("/admin/replicas", json=body)).status_code == 201
        await it.until_state("svc@127.0.0.1", "down")
        assert REASON in (await it.replicas())["svc@127.0.0.1"]["reason"]


@pytest.mark.parametrize("num_gateways", [2, 3])
async def test_gateways_in_a_circle_pass_on_a_request_once_each(num_gateways: int) -> None:
    """Each has a replica that serves until the circle is closed and ready."""
    async with FakeRemote() as remote:
        gateways = [running(ReplicaEntry(url=remote.url, name="a")) for _ in range(3)]
        async with gateways[0] as x, gateways[1] as y, gateways[2] as z:
            circle = [x, y, z][:num_gateways]
            for it, following in zip(circle, [*circle[1:], circle[0]], strict=True):
                await it.until_state("a", "ready")
                await add(it, following.gateway.url, "next", model=MODEL)
                await it.until_state("next", "ready")
            for it in circle:
                await it.admin.patch("/admin/replicas", json={"name": "a", "draining": True})
            before = [await num_requests(it) for it in circle]
            answer = await x.http.post(CHAT, json=chat())
            assert answer.status_code == 503
            counted = [await num_requests(it) - n for it, n in zip(circle, before, strict=True)]
            assert counted == [1] * num_gateways


async def test_gateways_that_list_only_each_other_have_no_replica() -> None:
    async with running() as a, running() as b:
        await add(a, b.gateway.url, "b", model=MODEL)
        await add(b, a.gateway.url, "a", model=MODEL)
        await a.until_state("b", "down")
        await b.until_state("a", "down")
        assert (await a.http.post(CHAT, json=chat())).status_code in (404, 503)


async def test_a_gateway_may_be_the_replica_of_another_one() -> None:
    async with (
        FakeRemote() as remote,
        running(ReplicaEntry(url=remote.url, name="a")) as inner,
        running() as outer,
    ):
        await inner.until_state("a", "ready")
        await add(outer, inner.gateway.url, "inner")
        await outer.until_state("inner", "ready")
        assert (await outer.http.post(CHAT, json=chat())).status_code == 200


@pytest.mark.parametrize(
    "value", ["0" * 16, ",".join(["0123456789abcdef"] * 300), "x" * 5000, "", "a, b;c", "\x80"]
)
async def test_a_client_that_sends_the_header_harms_nobody(value: str) -> None:
    async with FakeRemote() as remote, running(ReplicaEntry(url=remote.url, name="a")) as it:
        await it.until_state("a", "ready")
        headers = [(HOPS_HEADER.encode(), value.encode("latin-1"))] * 2
        assert (await it.http.post(CHAT, json=chat(), headers=headers)).status_code == 200
        sent = remote.headers[-1][HOPS_HEADER]
        assert len(sent) < 500
        assert (await it.http.post(CHAT, json=chat())).status_code == 200
        assert it.gateway.traffic.breaker_states()["a"] == "closed"


async def test_a_replica_that_refuses_a_loop_is_an_error_that_passes() -> None:
    async with FakeRemote() as remote, running(ReplicaEntry(url=remote.url, name="a")) as it:
        await it.until_state("a", "ready")
        remote.mode, remote.refusal = "refuse", (508, {"error": {"message": "loop"}})
        answer = await it.http.post(CHAT, json=chat())
        assert answer.status_code == 503


def test_ids_of_all_headers_count_and_the_oldest_of_many_are_dropped() -> None:
    ids = [f"{number:016x}" for number in range(40)]
    headers = [(b"host", b"a"), *((HOPS_HEADER.encode(), one.encode()) for one in ids)]
    found = hops_of({"headers": headers})
    assert found == ids[-16:]
    own = new_gateway_id()
    assert add_hop(found, own).split(",") == [*ids[-15:], own]
    assert hops_of({"headers": [(HOPS_HEADER.encode(), add_hop(found, own).encode())]})[-1] == own


def test_examples_in_docstrings_run() -> None:
    result = doctest.testmod(hops)
    assert result.attempted > 0
    assert result.failed == 0
