"""Are remote replicas taken in, watched and let go, over real connections?"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from paceline.gateway import FleetSettings, Replica, ReplicaEntry, RunningGateway, serve_gateway
from paceline.gateway.breaker import Breakers
from paceline.gateway.failure_settings import FailureSettings
from paceline.gateway.fleet.fleet import Clash, Fleet
from paceline.gateway.fleet.prober import Prober
from paceline.gateway.lease import Ledger
from paceline.gateway.progress import ProgressWatch

from .conftest import SETTINGS, FixedReplicas, chat, until
from .fake_engine import MODEL, FakeEngine
from .fake_remote import FakeRemote

CHAT = "/v1/chat/completions"
FLEET = FleetSettings(
    poll_period_s=0.02,
    poll_timeout_s=0.2,
    failures_before_down=3,
    load_period_s=0.02,
    dns_period_s=0.02,
    warm_up_timeout_s=1.0,
)
NO_ENGINES = FixedReplicas([])


@dataclass
class Running:
    """A gateway with clients before it."""

    gateway: RunningGateway
    http: httpx.AsyncClient
    admin: httpx.AsyncClient

    async def replicas(self) -> dict[str, dict[str, Any]]:
        listed = (await self.admin.get("/admin/replicas")).json()["replicas"]
        return {replica["name"]: replica for replica in listed}

    def state(self, name: str) -> str | None:
        states = {r.name: r.state for r in self.gateway.fleet.replicas()}
        return states.get(name)

    async def until_state(self, name: str, state: str | None, within_s: float = 3.0) -> None:
        await until(lambda: self.state(name) == state, within_s)


@asynccontextmanager
async def running(
    *entries: ReplicaEntry, local: FixedReplicas = NO_ENGINES, **changes: object
) -> AsyncIterator[Running]:
    settings = replace(SETTINGS, fleet=replace(FLEET, entries=entries, **changes))
    async with (
        serve_gateway(settings, local) as gateway,
        httpx.AsyncClient(base_url=gateway.url, timeout=10) as http,
        httpx.AsyncClient(base_url=gateway.admin_url, timeout=10) as admin,
    ):
        yield Running(gateway, http, admin)


async def test_a_remote_replica_serves_once_it_is_warm() -> None:
    async with FakeRemote() as remote, running(ReplicaEntry(url=remote.url, name="a")) as it:
        await it.until_state("a", "ready")
        assert remote.num_finished == 1  # the warm-up, before any client
        answer = await it.http.post(CHAT, json=chat())
        assert (answer.status_code, remote.num_finished) == (200, 2)
        (model,) = (await it.http.get("/v1/models")).json()["data"]
        assert (model["id"], model["max_model_len"]) == (MODEL, 2048)
        assert (await it.http.get("/ready")).status_code == 200


async def test_no_client_reaches_a_replica_that_is_not_warm_yet() -> None:
    async with FakeRemote() as remote:
        remote.mode = "hang"
        entry = ReplicaEntry(url=remote.url, name="a", model=MODEL)
        async with running(entry) as it:
            await until(lambda: remote.num_begun == 1)
            answer = await it.http.post(CHAT, json=chat())
            assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
            assert (await it.http.get("/ready")).status_code == 503
            assert (await it.replicas())["a"]["reason"] == "warming up"
            assert remote.num_begun == 1


async def test_a_replica_that_fails_its_warm_up_takes_no_traffic_and_says_why() -> None:
    async with FakeRemote() as remote:
        remote.mode = "refuse"
        remote.refusal = (500, {"error": {"message": "CUDA error"}})
        async with running(ReplicaEntry(url=remote.url, name="a")) as it:
            await it.until_state("a", "down")
            reason = (await it.replicas())["a"]["reason"]
            assert reason == "warm-up failed: /v1/completions answered 500: CUDA error"
            remote.mode = "answer"
            await it.until_state("a", "ready")


async def test_the_warm_up_can_be_left_out() -> None:
    async with FakeRemote() as remote, running(ReplicaEntry(url=remote.url), warm_up=False) as it:
        await it.until_state(f"127.0.0.1:{remote.port}", "ready")
        assert remote.num_begun == 0


async def test_a_server_without_completions_is_warmed_up_by_a_chat() -> None:
    async with FakeRemote() as remote:
        remote.has_completions = False
        async with running(ReplicaEntry(url=remote.url, name="a")) as it:
            await it.until_state("a", "ready")
            assert (remote.asked["/v1/completions"], remote.asked[CHAT]) == (1, 1)


async def test_a_server_that_lists_no_models_serves_the_one_that_the_operator_names() -> None:
    async with FakeRemote() as remote:
        remote.models = None
        async with running(
            ReplicaEntry(url=remote.url, name="a", model=MODEL), ReplicaEntry(dns="x:1")
        ) as it:
            await it.until_state("a", "ready")
            assert (await it.replicas())["a"]["max_model_len"] is None
            assert (await it.http.post(CHAT, json=chat())).status_code == 200


@pytest.mark.parametrize("health", [503, 0])
async def test_a_replica_goes_down_and_comes_back_by_itself(health: int) -> None:
    """A stream that it has goes on, and is counted all the while (vllm-project/router #197)."""
    async with FakeRemote() as remote, running(ReplicaEntry(url=remote.url, name="a")) as it:
        await it.until_state("a", "ready")
        remote.mode = "stall"
        async with it.http.stream("POST", CHAT, json=chat(stream=True)) as stream:
            assert stream.status_code == 200
            remote.mode = "answer"
            remote.health = health
            await it.until_state("a", "down")
            assert it.gateway.ledger.num_in_flight("a") == 1
            assert (await it.http.get("/ready")).status_code == 503
            num_warm_ups = remote.asked["/v1/completions"]
            remote.health = 200
            await it.until_state("a", "ready")
            assert remote.asked["/v1/completions"] == num_warm_ups + 1
            assert it.gateway.ledger.num_in_flight("a") == 1
        await until(lambda: it.gateway.ledger.num_in_flight("a") == 0)


async def test_fewer_failures_than_allowed_leave_it_ready() -> None:
    async with FakeRemote() as remote:
        entry = ReplicaEntry(url=remote.url, name="a")
        async with running(entry, failures_before_down=1000) as it:
            await it.until_state("a", "ready")
            remote.health = 500
            await until(lambda: remote.asked["/health"] > 5)
            assert it.state("a") == "ready"
            assert (await it.replicas())["a"]["reason"] == "/health answered 500"


async def test_a_model_that_may_be_there_soon_is_a_503_and_no_404() -> None:
    """Clients try again then; a 404 they take for final."""
    async with FakeRemote() as remote:
        remote.health = 0
        async with running(ReplicaEntry(url=remote.url, name="a"), poll_timeout_s=0.5) as it:
            answer = await it.http.post(CHAT, json=chat())
            assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
            assert (await it.http.get("/v1/models")).json()["data"] == []
            assert (await it.replicas())["a"]["model"] is None
            await it.until_state("a", "down")
            assert (await it.http.post(CHAT, json=chat())).status_code == 503


async def test_a_replica_that_nobody_answers_for_is_down_with_the_reason() -> None:
    async with FakeRemote() as gone:
        url = gone.url
    async with running(ReplicaEntry(url=url, name="a", model=MODEL)) as it:
        await it.until_state("a", "down")
        described = (await it.replicas())["a"]
        assert "/health cannot be reached" in described["reason"]
        assert described["last_poll_age_s"] < 1
        assert (await it.http.post(CHAT, json=chat())).status_code == 503


async def test_a_key_is_sent_and_never_shown() -> None:
    async with FakeRemote() as remote:
        remote.key = "s3cret"
        entries = (
            ReplicaEntry(url=remote.url, name="with", key="s3cret"),
            ReplicaEntry(url=remote.url.replace("127.0.0.1", "localhost"), name="without"),
        )
        async with running(*entries) as it:
            await it.until_state("with", "ready")
            await it.until_state("without", "down")
            shown = (await it.admin.get("/admin/replicas")).text
            assert "s3cret" not in shown
            assert "/v1/models answered 401: Unauthorized" in shown


async def test_loads_are_shown_and_measured() -> None:
    """Of remote replicas and of the engines of this machine."""
    async with FakeRemote() as remote, FakeRemote() as engine:
        engine.page = "vllm:num_requests_waiting 5.0\nvllm:num_preemptions_total 2.0\n"
        local = FixedReplicas([Replica("engine-0", engine.url, MODEL, "ready")])
        async with running(ReplicaEntry(url=remote.url, name="a"), local=local) as it:
            await until(lambda: len(it.gateway.fleet.loads()) == 2)
            replicas = await it.replicas()
            assert replicas["a"]["load"]["num_running"] == 3
            assert replicas["a"]["load"]["num_waiting"] is None
            assert replicas["engine-0"]["load"]["num_waiting"] == 5
            metrics = (await it.admin.get("/metrics")).text.splitlines()
            assert 'paceline_replica_load_requests_running{replica="a"} 3.0' in metrics
            assert 'paceline_replica_load_requests_waiting{replica="engine-0"} 5.0' in metrics
            assert 'paceline_replica_load_preemptions_total{replica="engine-0"} 2.0' in metrics
            assert not any('load_requests_waiting{replica="a"' in line for line in metrics)
            engine.page = ""
            await until(lambda: bool(_status(it, "engine-0").load.failure))
            assert _status(it, "engine-0").load.failure == "/metrics answered 404: 404: Not Found"


async def test_the_load_of_an_engine_is_read_over_its_socket() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with FakeEngine(Path(folder) / "e.sock") as engine:
            local = FixedReplicas([Replica("r0", str(engine.socket), MODEL, "ready")])
            async with running(local=local) as it:
                await until(lambda: "404" in _status(it, "r0").load.failure)


async def test_a_server_without_metrics_is_served_all_the_same() -> None:
    async with FakeRemote() as remote:
        remote.page = ""
        async with running(ReplicaEntry(url=remote.url, name="a")) as it:
            await until(lambda: "404" in _status(it, "a").load.failure)
            assert (await it.http.post(CHAT, json=chat())).status_code == 200
            assert it.state("a") == "ready"


async def test_a_key_does_not_follow_a_redirect() -> None:
    async with FakeRemote() as elsewhere, FakeRemote() as remote:
        remote.redirect = elsewhere.url
        async with running(ReplicaEntry(url=remote.url, name="a", key="s3cret")) as it:
            await it.until_state("a", "down")
            assert "/health answered 307" in (await it.replicas())["a"]["reason"]
            assert not elsewhere.asked


async def test_a_page_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.gateway.fleet.prober._MAX_PAGE_BYTES", 1000)
    async with FakeRemote() as remote:
        remote.page = "x" * 1001
        async with running(ReplicaEntry(url=remote.url, name="a")) as it:
            await until(lambda: "longer than 1000 bytes" in _status(it, "a").load.failure)
            assert it.state("a") == "ready"


async def test_replicas_are_added_at_run_time_and_warmed_up_first() -> None:
    async with FakeRemote() as remote, running() as it:
        added = await it.admin.post("/admin/replicas", json={"url": remote.url, "name": "a"})
        assert (added.status_code, added.json()) == (201, {"name": "a", "state": "starting"})
        await it.until_state("a", "ready")
        assert remote.num_finished == 1
        described = (await it.replicas())["a"]
        described["last_poll_age_s"] = described["load"] = described["load_failure"] = None
        assert described == {
            "name": "a", "state": "ready", "reason": None, "model": MODEL, "in_flight": 0,
            "max_in_flight": None, "origin": "url", "entry": "a", "address_kind": "http",
            "url": remote.url, "dialect": "vllm", "drafts": False, "draining": False,
            "has_governor": False, "max_model_len": 2048, "restarts": None,
            "last_poll_age_s": None, "load": None, "load_failure": None,
        }  # fmt: skip


async def test_what_clashes_is_a_409() -> None:
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
        ({"url": "http://a:1", "dialect": "ollama"}, "dialect"),
        ({"url": "http://a:1", "key_file": "/etc/shadow"}, "key_file"),
        ({"url": "http://a:1", "weight": 2}, "weight"),
    ],
)
async def test_wrong_entries_are_a_400(request_body: dict[str, object], param: str | None) -> None:
    async with running() as it:
        answer = await it.admin.post("/admin/replicas", json=request_body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
        assert await it.replicas() == {}


async def test_a_file_of_the_gateways_machine_cannot_be_sent_to_a_replica() -> None:
    async with running() as it:
        request = {"url": "http://a:1", "key_file": "/etc/shadow"}
        answer = await it.admin.post("/admin/replicas", json=request)
        assert answer.status_code == 400
        assert "give the key itself, as key" in answer.json()["error"]["message"]


async def test_a_replica_is_parked_and_put_back() -> None:
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


async def test_an_engine_of_this_machine_can_be_parked() -> None:
    async with FakeRemote() as engine:
        local = FixedReplicas([Replica("engine-0", engine.url, MODEL, "ready")])
        async with running(local=local) as it:
            await it.admin.patch("/admin/replicas", json={"name": "engine-0", "draining": True})
            assert it.state("engine-0") == "draining"
            assert (await it.replicas())["engine-0"]["draining"] is True
            assert (await it.http.post(CHAT, json=chat())).status_code == 503
            await it.admin.patch("/admin/replicas", json={"name": "engine-0", "draining": False})
            assert (await it.http.post(CHAT, json=chat())).status_code == 200


async def test_a_stream_ends_well_on_a_replica_that_is_removed() -> None:
    async with FakeRemote() as remote, running(ReplicaEntry(url=remote.url, name="a")) as it:
        await it.until_state("a", "ready")
        remote.mode = "drip"
        remote.tokens = ["x "] * 40
        async with it.http.stream("POST", CHAT, json=chat(stream=True)) as stream:
            answer = await it.admin.delete("/admin/replicas", params={"name": "a"})
            assert answer.json() == {"name": "a", "state": "draining", "in_flight": 1}
            assert it.state("a") == "draining"
            clash = await it.admin.patch("/admin/replicas", json={"name": "a", "draining": False})
            assert clash.status_code == 409
            assert (await it.http.post(CHAT, json=chat())).status_code == 503
            text = (await stream.aread()).decode()
        assert text.endswith("data: [DONE]\n\n")
        assert text.count('"x "') == 40
        await it.until_state("a", None)


async def test_an_idle_replica_is_removed_at_once_and_may_come_again() -> None:
    async with FakeRemote() as remote, running(ReplicaEntry(url=remote.url, name="a")) as it:
        answer = await it.admin.delete("/admin/replicas", params={"name": "a"})
        assert answer.json() == {"name": "a", "state": "removed", "in_flight": 0}
        assert await it.replicas() == {}
        added = await it.admin.post("/admin/replicas", json={"url": remote.url, "name": "a"})
        assert added.status_code == 201
        await it.until_state("a", "ready")


async def test_names_that_are_not_there_are_a_404() -> None:
    async with running(ReplicaEntry(url="http://127.0.0.1:1", name="a")) as it:
        patched = await it.admin.patch("/admin/replicas", json={"name": "b", "draining": True})
        deleted = await it.admin.delete("/admin/replicas", params={"name": "b"})
        for answer in (patched, deleted):
            assert answer.status_code == 404
            assert answer.json()["error"]["message"] == ("There is no replica 'b'; there are: a.")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"name": "a"}, "draining"),
        ({"name": "a", "draining": "yes"}, "draining"),
        ({"draining": True}, "name"),
        ({"name": "a", "draining": True, "x": 1}, "x"),
    ],
)
async def test_wrong_changes_are_a_400(body: dict[str, object], param: str) -> None:
    async with running(ReplicaEntry(url="http://127.0.0.1:1", name="a")) as it:
        answer = await it.admin.patch("/admin/replicas", json=body)
        assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)
        assert (await it.admin.delete("/admin/replicas")).status_code == 400
        assert (await it.replicas())["a"]["draining"] is False


async def test_coming_and_going_leaves_nothing_behind() -> None:
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


async def test_a_fault_in_the_watch_is_told_and_heals(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(prober: Prober, timeout_s: float) -> None:
        raise RuntimeError("a fault of ours")

    async with FakeRemote() as remote, running(ReplicaEntry(url=remote.url, name="a")) as it:
        await it.until_state("a", "ready")
        with caplog.at_level(logging.ERROR), monkeypatch.context() as patch:
            patch.setattr(Prober, "check_health", fail)
            await it.until_state("a", "down")
        assert "a fault of ours" in caplog.text
        await it.until_state("a", "ready")


# DNS


class FakeDns:
    """A resolver that answers as it is told."""

    def __init__(self, *answer: str) -> None:
        self.answer: Sequence[str] | Exception = answer
        self.num_asked = 0

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.num_asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@asynccontextmanager
async def dns_fleet(
    dns: FakeDns, port: int, *entries: ReplicaEntry
) -> AsyncIterator[tuple[Fleet, Ledger]]:
    failures = FailureSettings()
    ledger = Ledger(Breakers(failures), ProgressWatch(failures, 120, 300))
    settings = replace(FLEET, entries=(ReplicaEntry(dns=f"llm.svc:{port}", name="llm"), *entries))
    async with Fleet(settings, NO_ENGINES, ledger.num_in_flight, resolve=dns) as fleet:
        yield fleet, ledger


@asynccontextmanager
async def remotes_on(*hosts: str) -> AsyncIterator[list[FakeRemote]]:
    """Servers on several addresses of the loopback network, on one port."""
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(FakeRemote(hosts[0]))
        others = [
            await stack.enter_async_context(FakeRemote(host, first.port)) for host in hosts[1:]
        ]
        yield [first, *others]


async def test_every_address_of_a_name_is_a_replica_and_they_come_and_go() -> None:
    async with remotes_on("127.0.0.1", "127.0.0.2") as (first, _):
        dns = FakeDns("127.0.0.1")
        async with dns_fleet(dns, first.port) as (fleet, ledger):
            await until(lambda: _states(fleet) == {"llm@127.0.0.1": "ready"})
            dns.answer = ("127.0.0.1", "127.0.0.2")
            await until(
                lambda: set(_states(fleet).values()) == {"ready"} and len(_states(fleet)) == 2
            )
            second = next(r for r in fleet.replicas() if r.name == "llm@127.0.0.2")
            async with ledger.lease(second):
                dns.answer = ("127.0.0.1",)
                await until(lambda: _states(fleet).get("llm@127.0.0.2") == "draining")
                await asyncio.sleep(0.05)
                assert "llm@127.0.0.2" in _states(fleet)
            await until(lambda: _states(fleet) == {"llm@127.0.0.1": "ready"})


async def test_an_address_that_is_back_while_it_drains_stays() -> None:
    async with remotes_on("127.0.0.1", "127.0.0.2") as (first, second):
        dns = FakeDns("127.0.0.1", "127.0.0.2")
        async with dns_fleet(dns, first.port) as (fleet, ledger):
            await until(lambda: list(_states(fleet).values()) == ["ready", "ready"])
            replica = next(r for r in fleet.replicas() if r.name == "llm@127.0.0.2")
            async with ledger.lease(replica):
                dns.answer = ("127.0.0.1",)
                await until(lambda: _states(fleet).get("llm@127.0.0.2") == "draining")
                num_warm_ups = second.num_finished
                dns.answer = ("127.0.0.1", "127.0.0.2")
                await until(lambda: _states(fleet).get("llm@127.0.0.2") == "ready")
                assert second.num_finished == num_warm_ups + 1
            await asyncio.sleep(0.3)  # longer than it takes to notice that it is idle
            assert list(_states(fleet).values()) == ["ready", "ready"]


@pytest.mark.parametrize("answer", [(), OSError("SERVFAIL"), UnicodeError("label too long")])
async def test_a_name_that_is_not_resolved_any_more_keeps_its_replicas(answer: Any) -> None:
    async with remotes_on("127.0.0.1") as (remote,):
        dns = FakeDns("127.0.0.1")
        async with dns_fleet(dns, remote.port) as (fleet, _):
            await until(lambda: _states(fleet) == {"llm@127.0.0.1": "ready"})
            dns.answer = answer
            asked = dns.num_asked
            await until(lambda: dns.num_asked > asked + 3)
            assert _states(fleet) == {"llm@127.0.0.1": "ready"}
            (name,) = fleet.names()
            assert name.failure
            assert name.addresses == ("127.0.0.1",)


async def test_an_address_that_an_entry_has_already_stays_that_entrys() -> None:
    async with remotes_on("127.0.0.1", "127.0.0.2") as (first, _):
        dns = FakeDns("127.0.0.1", "127.0.0.2")
        by_url = ReplicaEntry(url=first.url, name="by-url")
        async with dns_fleet(dns, first.port, by_url) as (fleet, _):
            await until(lambda: list(_states(fleet).values()) == ["ready", "ready"])
            assert set(_states(fleet)) == {"by-url", "llm@127.0.0.2"}
            with pytest.raises(Clash, match=r"is the replica 'llm@127\.0\.0\.2' already"):
                fleet.add(ReplicaEntry(url=f"http://127.0.0.2:{first.port}", name="again"))


async def test_a_name_is_drained_and_removed_as_a_whole() -> None:
    async with remotes_on("127.0.0.1", "127.0.0.2") as (first, _):
        dns = FakeDns("127.0.0.1")
        async with dns_fleet(dns, first.port) as (fleet, _):
            await until(lambda: _states(fleet) == {"llm@127.0.0.1": "ready"})
            fleet.set_draining("llm", True)
            dns.answer = ("127.0.0.1", "127.0.0.2")
            await until(lambda: list(_states(fleet).values()) == ["draining", "draining"])
            with pytest.raises(Clash, match="comes from the DNS entry 'llm'"):
                fleet.remove("llm@127.0.0.1")
            assert fleet.remove("llm") is True
            assert (list(fleet.replicas()), list(fleet.names())) == ([], [])
            asked = dns.num_asked
            await asyncio.sleep(0.1)
            assert dns.num_asked == asked


async def test_a_real_name_is_resolved() -> None:
    async with (
        FakeRemote() as remote,
        running(ReplicaEntry(dns=f"localhost:{remote.port}")) as it,
    ):
        entry = f"localhost:{remote.port}"
        await it.until_state(f"{entry}@127.0.0.1", "ready")
        described = (await it.replicas())[f"{entry}@127.0.0.1"]
        assert (described["origin"], described["entry"]) == ("dns", entry)
        (listed,) = (await it.admin.get("/admin/replicas")).json()["dns"]
        assert "127.0.0.1" in listed["addresses"]


def _states(fleet: Fleet) -> dict[str, str]:
    return {replica.name: replica.state for replica in fleet.replicas()}


def _status(it: Running, name: str) -> Any:
    return next(s for s in it.gateway.fleet.statuses() if s.replica.name == name)


def _fleet_tasks() -> int:
    return sum(task.get_name().startswith("fleet: ") for task in asyncio.all_tasks())
