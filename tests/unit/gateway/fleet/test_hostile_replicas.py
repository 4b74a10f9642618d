"""A replica that serves well stays ready and changes little here, whatever else it reports."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from paceline.runtime.gateway import ReplicaEntry
from paceline.runtime.gateway.http.errors import listed
from paceline.runtime.gateway.settings.fleet import MAX_REPLICAS, FleetSettings
from unit.gateway.conftest import chat, until
from unit.gateway.fake_engine import MODEL
from unit.gateway.fleet.fake_remote import FakeRemote
from unit.gateway.running_fleet import CHAT, Running, running

RUNNING = "vllm:num_requests_running"
REVISION = "paceline_engine_revision_info"
ITL = "vllm:inter_token_latency_seconds"
PAGES = {
    "a sum that is infinite": f'{RUNNING}{{e="0"}} 1e308\n{RUNNING}{{e="1"}} 1e308\n',
    "counts of more than 64 bits": f"{RUNNING} 1e30\nvllm:generation_tokens_total 1e19\n",
    "a huge integer": f"{RUNNING} {'9' * 400}\n",
    "a histogram of 100,000 buckets": "".join(
        f'{ITL}_bucket{{le="{i}.5"}} {i}\n' for i in range(100_000)
    )
    + f'{ITL}_bucket{{le="+Inf"}} 100000\n{ITL}_sum 5\n',
    "50,000 label sets": "".join(f'{RUNNING}{{e="{i}"}} 1\n' for i in range(50_000)),
    "one line of 4 MB": f'{RUNNING}{{a="' + "x" * 4_000_000 + '"} 1\n',
    "controls": f'{RUNNING}{{a="\x00\x1b[2J"}} 1\n{REVISION}{{revision="\x1b"}} 1\n',
    "no UTF-8": "\udcff\udcfe",
    "a revision of 100,000 characters": f'{REVISION}{{revision="{"r" * 100_000}"}} 1\n',
    "nothing that is a sample": "<html>" * 1000,
}  # fmt: skip


async def check_serving(it: Running) -> dict[str, object]:
    """The replica serves, and the pages of the admin port can be read."""
    assert (await it.http.post(CHAT, json=chat())).status_code == 200
    metrics = (await it.admin.get("/metrics")).text
    assert len(metrics) < 100_000
    assert len(list(text_string_to_metric_families(metrics))) > 10
    assert (await it.admin.get("/dashboard/state")).status_code == 200
    described = (await it.replicas())["a"]
    assert described["state"] == "ready"
    assert str(described["revision"]).isprintable()
    return described


@pytest.mark.parametrize("name", PAGES)
async def test_no_metrics_page_takes_a_replica_down_or_fills_the_gateways_own(
    caplog: pytest.LogCaptureFixture, name: str
) -> None:
    async with FakeRemote() as remote, running(ReplicaEntry(url=remote.url, name="a")) as it:
        await it.until_state("a", "ready")
        remote.page = PAGES[name]
        before = remote.num_requests["/metrics"]
        await until(lambda: remote.num_requests["/metrics"] >= before + 3)
        await check_serving(it)
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    "models",
    [
        [{"id": "x\r\ny"}, {"id": MODEL}],
        [{"id": "x" * 300_000}, {"id": MODEL}],
        [{"id": MODEL, "max_model_len": 10**400}],
        [{"id": MODEL, "meta": {"n_ctx": -(10**30)}}],
    ],
    ids=["line end", "long", "overflow", "negative"],
)
async def test_only_names_and_lengths_of_a_replica_reach_clients(
    models: list[dict[str, object]],
) -> None:
    async with FakeRemote() as remote:
        remote.models = models
        async with running(ReplicaEntry(url=remote.url, name="a")) as it:
            await it.until_state("a", "ready")
            await check_serving(it)
            listed = (await it.http.get("/v1/models")).json()["data"]
            assert [(one["id"], one["max_model_len"]) for one in listed] == [(MODEL, None)]


async def test_the_number_of_ids_of_a_replica_is_bounded() -> None:
    """Its adapters are in each message about the replicas."""
    async with FakeRemote() as remote:
        remote.models = [{"id": MODEL}] + [{"id": f"adapter-{i}"} for i in range(5000)]
        async with running(ReplicaEntry(url=remote.url, name="a")) as it:
            await it.until_state("a", "ready")
            listed = (await it.http.get("/v1/models")).json()["data"]
            assert {one["id"] for one in listed} == {
                MODEL, *(f"adapter-{i}" for i in range(256))
            }  # fmt: skip


@pytest.mark.parametrize("text", ["x\r\ny", "x" * 300_000, "\x1b[2J", ""])
async def test_a_replica_whose_only_model_has_no_name_is_down_with_the_reason(text: str) -> None:
    async with FakeRemote() as remote:
        remote.models = [{"id": text}]
        async with running(ReplicaEntry(url=remote.url, name="a")) as it:
            await it.until_state("a", "down")
            reason = (await it.replicas())["a"]["reason"]
            assert "1 to 256 printable characters" in reason
            assert (await it.http.get("/v1/models")).json()["data"] == []


def bomb(remote: FakeRemote) -> None:
    remote.content_encoding = "gzip"


def endless(remote: FakeRemote) -> None:
    remote.is_endless = True


@pytest.mark.parametrize("fault", [bomb, endless])
async def test_compressed_and_endless_metrics_are_not_read_and_do_no_harm(
    fault: Callable[[FakeRemote], None],
) -> None:
    async with FakeRemote() as remote:
        fault(remote)
        async with running(ReplicaEntry(url=remote.url, name="a")) as it:
            await it.until_state("a", "ready")
            await until(lambda: remote.num_requests["/metrics"] >= 2)
            described = await check_serving(it)
            assert described["load"] is None
            assert described["load_failure"]


async def test_what_a_replica_says_in_an_error_is_one_printable_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with FakeRemote() as remote:
        remote.health, remote.health_text = (
            500,
            '{"error": "a\\r\\nb\\u001b[2J\\u202e' + "x" * 9999 + '"}',
        )
        async with running(ReplicaEntry(url=remote.url, name="a")) as it:
            await it.until_state("a", "down")
            reason = (await it.replicas())["a"]["reason"]
            assert "\ufffd[2J" in reason
            assert len(reason) < 500
    messages = [
        record.getMessage() for record in caplog.records if "a is down" in record.msg % record.args
    ]
    assert len(messages) == 1
    assert not set(messages[0]) & {"\r", "\n", "\x1b", "\u202e"}


async def test_the_number_of_replicas_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paceline.runtime.gateway.fleet.fleet.MAX_REPLICAS", 3)
    async with running() as it:
        for port in (1, 2, 3):
            body = {"url": f"http://127.0.0.1:{port}"}
            assert (await it.admin.post("/admin/replicas", json=body)).status_code == 201
        for body in ({"url": "http://127.0.0.1:4"}, {"dns": "llm.svc:4"}):
            answer = await it.admin.post("/admin/replicas", json=body)
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "replica_exists")
            assert "3 remote replicas" in answer.json()["error"]["message"]
    entries = tuple(ReplicaEntry(url=f"http://a:{port}") for port in range(1, MAX_REPLICAS + 2))
    with pytest.raises(ValueError, match="at most 512"):
        FleetSettings(entries=entries)


def test_a_message_lists_some_of_many_names() -> None:
    assert listed([]) == ""
    assert listed(["a", "b"]) == "a, b"
    text = listed([f"r{i}-" + "n" * 90 for i in range(MAX_REPLICAS)])
    assert text.endswith("and 492 more")
    assert len(text) < 3000
