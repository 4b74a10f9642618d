"""Polling, warm-up and load of remote replicas, over real connections."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import Any

import pytest

from paceline.runtime.gateway import Replica, ReplicaEntry
from paceline.runtime.gateway.fleet.prober import Prober
from paceline.runtime.gateway.signals import ReplicaSignals
from unit.gateway.conftest import FixedReplicas, chat, until
from unit.gateway.fake_engine import MODEL, FakeEngine
from unit.gateway.fleet.fake_remote import FakeRemote
from unit.gateway.running_fleet import CHAT, Running, running


async def test_a_remote_replica_serves_once_it_is_warm() -> None:
    async with FakeRemote() as remote, running(ReplicaEntry(url=remote.url, name="a")) as it:
        await it.until_state("a", "ready")
        assert remote.num_finished == 1  # the warm-up, before any client
        answer = await it.http.post(CHAT, json=chat())
        assert (answer.status_code, remote.num_finished) == (200, 2)
        (model,) = (await it.http.get("/v1/models")).json()["data"]
        assert (model["id"], model["max_model_len"]) == (MODEL, 2048)
        assert (await it.http.get("/ready")).status_code == 200


async def test_no_request_reaches_a_replica_before_its_warm_up() -> None:
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


async def test_the_warm_up_can_be_switched_off() -> None:
    async with FakeRemote() as remote, running(ReplicaEntry(url=remote.url), warm_up=False) as it:
        await it.until_state(f"127.0.0.1:{remote.port}", "ready")
        assert remote.num_begun == 0


async def test_a_server_without_completions_is_warmed_up_by_a_chat() -> None:
    async with FakeRemote() as remote:
        remote.has_completions = False
        async with running(ReplicaEntry(url=remote.url, name="a")) as it:
            await it.until_state("a", "ready")
            assert (remote.num_requests["/v1/completions"], remote.num_requests[CHAT]) == (1, 1)


async def test_a_server_without_a_model_list_serves_the_configured_model() -> None:
    async with FakeRemote() as remote:
        remote.models = None
        async with running(
            ReplicaEntry(url=remote.url, name="a", model=MODEL), ReplicaEntry(dns="x:1")
        ) as it:
            await it.until_state("a", "ready")
            assert (await it.replicas())["a"]["max_model_len"] is None
            assert (await it.http.post(CHAT, json=chat())).status_code == 200


@pytest.mark.parametrize("health", [503, 0])
async def test_a_replica_goes_down_and_recovers_by_itself(health: int) -> None:
    """A stream in flight continues and stays counted (vllm-project/router #197).

    A health of 0 is no answer.
    """
    limit_s = 60.0 if health else 0.5
    async with (
        FakeRemote() as remote,
        running(ReplicaEntry(url=remote.url, name="a"), poll_timeout_s=limit_s) as it,
    ):
        await it.until_state("a", "ready")
        remote.mode = "stall"
        async with it.http.stream("POST", CHAT, json=chat(stream=True)) as stream:
            assert stream.status_code == 200
            remote.mode = "answer"
            remote.health = health
            await it.until_state("a", "down")
            assert it.gateway.traffic.num_in_flight("a") == 1
            assert (await it.http.get("/ready")).status_code == 503
            num_warm_ups = remote.num_requests["/v1/completions"]
            remote.health = 200
            await it.until_state("a", "ready")
            assert remote.num_requests["/v1/completions"] == num_warm_ups + 1
            assert it.gateway.traffic.num_in_flight("a") == 1
        await until(lambda: it.gateway.traffic.num_in_flight("a") == 0)


async def test_fewer_failures_than_allowed_leave_it_ready() -> None:
    async with FakeRemote() as remote:
        entry = ReplicaEntry(url=remote.url, name="a")
        async with running(entry, failures_before_down=1000) as it:
            await it.until_state("a", "ready")
            remote.health = 500
            await until(lambda: remote.num_requests["/health"] > 5)
            assert it.state("a") == "ready"
            assert (await it.replicas())["a"]["reason"] == "/health answered 500"


async def test_a_model_that_may_appear_soon_gets_a_503_not_a_404() -> None:
    """Clients retry after a 503; they treat a 404 as final."""
    async with FakeRemote() as remote:
        remote.health = 0
        async with running(ReplicaEntry(url=remote.url, name="a"), poll_timeout_s=0.5) as it:
            answer = await it.http.post(CHAT, json=chat())
            assert (answer.status_code, "retry-after" in answer.headers) == (503, True)
            assert (await it.http.get("/v1/models")).json()["data"] == []
            assert (await it.replicas())["a"]["model"] is None
            await it.until_state("a", "down")
            assert (await it.http.post(CHAT, json=chat())).status_code == 503


async def test_an_unreachable_replica_is_down_with_the_reason() -> None:
    async with FakeRemote() as gone:
        url = gone.url
    async with running(ReplicaEntry(url=url, name="a", model=MODEL)) as it:
        await it.until_state("a", "down")
        described = (await it.replicas())["a"]
        assert "/health cannot be reached" in described["reason"]
        assert described["last_poll_age_s"] < 60
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


async def test_loads_are_in_the_replica_list_and_in_the_metrics() -> None:
    """For remote replicas and for local engines."""
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


async def test_signals_are_the_rates_between_two_readings() -> None:
    page = (
        "vllm:num_requests_running 3.0\nvllm:kv_cache_usage_perc 0.5\n"
        "vllm:generation_tokens_total {}\nvllm:inter_token_latency_seconds_sum {}\n"
        "vllm:spec_decode_num_draft_tokens_total {}\n"
        "vllm:spec_decode_num_accepted_tokens_total {}\n"
    )
    async with FakeRemote() as remote:
        remote.page = page.format(100, 1.0, 40, 10)
        async with running(ReplicaEntry(url=remote.url, name="a")) as it:
            await until(lambda: "a" in it.gateway.fleet.signals())
            assert it.gateway.fleet.signals() == {"a": ReplicaSignals(3, None, 0.5)}
            remote.page = page.format(300, 5.0, 80, 30)
            known = ReplicaSignals(3, None, 0.5, accepted_fraction=0.5, seconds_per_token=0.02)
            await until(lambda: it.gateway.fleet.signals() == {"a": known})
            shown = (await it.replicas())["a"]
            assert (shown["accepted_fraction"], shown["seconds_per_token"]) == (0.5, 0.02)


async def test_the_reason_why_a_local_engine_is_down_is_shown() -> None:
    local = FixedReplicas([Replica("r0", "/tmp/no-socket", MODEL, "down", reason="exit code 1")])
    async with running(local=local) as it:
        assert _status(it, "r0").reason == "exit code 1"


async def test_the_load_of_a_local_engine_is_read_over_its_socket() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with FakeEngine(Path(folder) / "e.sock") as engine:
            local = FixedReplicas([Replica("r0", str(engine.socket), MODEL, "ready")])
            async with running(local=local) as it:
                await until(lambda: "404" in _status(it, "r0").load.failure)


async def test_a_server_without_metrics_serves_anyway() -> None:
    async with FakeRemote() as remote:
        remote.page = ""
        async with running(ReplicaEntry(url=remote.url, name="a")) as it:
            await until(lambda: "404" in _status(it, "a").load.failure)
            assert (await it.http.post(CHAT, json=chat())).status_code == 200
            assert it.state("a") == "ready"


async def test_a_key_does_not_follow_a_redirect() -> None:
    async with FakeRemote() as target, FakeRemote() as remote:
        remote.redirect = target.url
        async with running(ReplicaEntry(url=remote.url, name="a", key="s3cret")) as it:
            await it.until_state("a", "down")
            assert "/health answered 307" in (await it.replicas())["a"]["reason"]
            assert not target.num_requests


async def test_the_size_of_a_metrics_page_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.runtime.gateway.fleet.prober._MAX_METRICS_BYTES", 1000)
    async with FakeRemote() as remote:
        remote.page = "x" * 1001
        async with running(ReplicaEntry(url=remote.url, name="a")) as it:
            await until(lambda: "longer than 1000 bytes" in _status(it, "a").load.failure)
            assert it.state("a") == "ready"


async def test_a_bug_in_polling_is_logged_and_polling_continues(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(prober: Prober, timeout_s: float) -> None:
        raise RuntimeError("a bug in the prober")

    async with FakeRemote() as remote, running(ReplicaEntry(url=remote.url, name="a")) as it:
        await it.until_state("a", "ready")
        with caplog.at_level(logging.ERROR), monkeypatch.context() as patch:
            patch.setattr(Prober, "check_health", fail)
            await it.until_state("a", "down")
        assert "a bug in the prober" in caplog.text
        await it.until_state("a", "ready")


def _status(it: Running, name: str) -> Any:
    return next(s for s in it.gateway.fleet.statuses() if s.replica.name == name)
