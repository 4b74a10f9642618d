"""Model id and revision of a remote replica, and polls that could not be sent."""

from __future__ import annotations

import asyncio
import logging

import pytest

from paceline.runtime.gateway.fleet.dialects import DIALECTS
from paceline.runtime.gateway.fleet.identity import ListedModel, read_revision
from paceline.runtime.gateway.fleet.metrics_page import MetricsPage
from paceline.runtime.gateway.fleet.prober import ReplicaProbeFailed
from paceline.runtime.gateway.fleet.remote_replica import RemoteReplica, choose_model
from paceline.runtime.gateway.settings import FleetSettings, ReplicaEntry
from unit.gateway.conftest import until
from unit.gateway.fake_engine import MODEL
from unit.gateway.fleet.fake_remote import FakeRemote
from unit.gateway.running_fleet import running
from unit.no_descriptors import no_descriptors

LINE = 'paceline_engine_revision_info{revision="6f1e"} 1.0'
OF_A_PROCESS = LINE.replace("{", '{pid="7",')
RUNNING = "vllm:num_requests_running 3.0\n"


def test_the_configured_model_wins_over_the_listed_ones() -> None:
    listed = [ListedModel("base", 4096), ListedModel("adapter", 1024)]
    assert choose_model(listed, None) == ListedModel("base", 4096)
    assert choose_model(listed, "adapter") == ListedModel("adapter", 1024)
    assert choose_model(listed, "other") == ListedModel("other")
    with pytest.raises(ReplicaProbeFailed, match="set `model` in its entry"):
        choose_model([], None)


@pytest.mark.parametrize(
    ("dialect", "configured", "max_in_flight"),
    [("llamacpp-python", None, 1), ("llamacpp-python", 2, 2), ("openai", None, None)],
)
def test_a_server_that_computes_one_request_at_a_time_gets_one(
    dialect: str, configured: int | None, max_in_flight: int | None
) -> None:
    entry = ReplicaEntry(url="http://a", name="r", dialect=dialect, max_in_flight=configured)
    remote = RemoteReplica("r", "http://a", entry, FleetSettings(), abs, quotes_errors=True)
    assert remote.replica.max_in_flight == max_in_flight


async def test_polls_without_descriptors_do_not_take_a_replica_down(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    entry = ReplicaEntry(url="http://127.0.0.1:1", name="r0")
    settings = FleetSettings(poll_period_s=0.01, failures_before_down=2)
    remote = RemoteReplica(
        "r0",
        "http://127.0.0.1:1",
        entry,
        settings,
        lambda period_s: period_s,
        quotes_errors=True,
    )
    with no_descriptors():
        polling = asyncio.create_task(remote.run())
        await until(lambda: caplog.text.count("was not polled") >= 3)
        assert remote.replica.state == "starting"
    await until(lambda: remote.replica.state == "down")
    polling.cancel()
    await asyncio.wait([polling])


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (f"{RUNNING}{LINE}\n", "6f1e"),
        (f"# TYPE x gauge\n{OF_A_PROCESS}\n{RUNNING}", "6f1e"),
        (f"{LINE}\n{LINE}\n", "6f1e"),
        (LINE.replace("1.0", "0.0"), None),
        (f"{LINE}\n{LINE.replace('6f1e', '7a2b')}\n", None),
        (f"# {LINE}\n", None),
        (RUNNING, None),
        ("", None),
    ],
)
def test_the_page_names_one_revision_or_none(page: str, expected: str | None) -> None:
    assert read_revision(MetricsPage(page)) == expected


async def test_a_server_that_returns_with_another_revision_is_read_before_it_serves() -> None:
    async with FakeRemote() as remote:
        remote.page = f"{RUNNING}{LINE}\n"
        async with running(ReplicaEntry(url=remote.url, name="r0")) as it:
            await it.until_state("r0", "ready")
            assert it.gateway.fleet.replicas()[0].revision == "6f1e"
            remote.health = 503
            await it.until_state("r0", "down")
            remote.page = remote.page.replace("6f1e", "7a2b")
            seen: set[str | None] = set()
            remote.health = 200

            def is_ready() -> bool:
                replica = it.gateway.fleet.replicas()[0]
                seen.update([replica.revision] if replica.state == "ready" else [])
                return bool(seen)

            await until(is_ready)
            assert seen == {"7a2b"}


async def test_a_configured_revision_counts() -> None:
    async with FakeRemote() as remote:
        remote.page = f"{RUNNING}{LINE}\n"
        async with running(ReplicaEntry(url=remote.url, name="r0", revision="mine")) as it:
            await it.until_state("r0", "ready")
            assert it.gateway.fleet.replicas()[0].revision == "mine"


@pytest.mark.parametrize(
    ("dialect", "version", "expected"),
    [("vllm", "0.32.0", "0.32.0"), ("vllm", None, None), ("openai", "7", None)],
)
async def test_the_version_of_vllm_is_read(
    dialect: str, version: str | None, expected: str | None
) -> None:
    async with FakeRemote() as remote:
        remote.version = version
        entry = ReplicaEntry(url=remote.url, name="r0", dialect=dialect, model=MODEL)
        async with running(entry) as it:
            await it.until_state("r0", "ready")
            path = DIALECTS[dialect].health_path
            num_polls = remote.num_requests[path]
            await until(lambda: remote.num_requests[path] > num_polls + 1)
            assert it.gateway.fleet.replicas()[0].version == expected


async def test_a_replica_takes_requests_while_its_version_hangs() -> None:
    async with FakeRemote() as remote:
        remote.hangs_at_version = True
        async with running(ReplicaEntry(url=remote.url, name="r0"), poll_timeout_s=300.0) as it:
            await it.until_state("r0", "ready")


async def test_a_server_that_returns_with_another_version_shows_that() -> None:
    async with FakeRemote() as remote:
        remote.version = "0.32.0"
        async with running(ReplicaEntry(url=remote.url, name="r0")) as it:
            await it.until_state("r0", "ready")
            remote.health = 503
            await it.until_state("r0", "down")
            remote.version, remote.health = "0.33.0", 200
            await until(lambda: it.gateway.fleet.replicas()[0].version == "0.33.0")
