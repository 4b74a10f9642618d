"""Polls that this process could not send, and answers that take long to read."""

from __future__ import annotations

import threading

import pytest

from paceline.runtime.gateway.fleet import prober as module
from paceline.runtime.gateway.fleet.dialects import DIALECTS
from paceline.runtime.gateway.fleet.identity import ListedModel, parse_models
from paceline.runtime.gateway.fleet.prober import (
    Prober,
    ReplicaProbeFailed,
    ReplicaProbeNotSent,
)
from unit.gateway.fleet.fake_remote import FakeRemote
from unit.no_descriptors import no_descriptors


async def test_a_poll_without_descriptors_says_nothing_about_the_replica() -> None:
    async with Prober("http://127.0.0.1:1", DIALECTS["vllm"]) as prober:
        with pytest.raises(ReplicaProbeFailed) as refused:
            await prober.check_health(1.0)
        assert not isinstance(refused.value, ReplicaProbeNotSent)
        with no_descriptors(), pytest.raises(ReplicaProbeNotSent):
            await prober.check_health(1.0)


@pytest.mark.parametrize(("num_models", "is_on_the_loop"), [(1, True), (2_000, False)])
async def test_a_long_list_of_models_is_read_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, num_models: int, *, is_on_the_loop: bool
) -> None:
    """Else the streams of all clients would wait."""
    threads = []

    def recorded(body: bytes) -> list[ListedModel]:
        threads.append(threading.current_thread())
        return list(parse_models(body))

    monkeypatch.setattr(module, "parse_models", recorded)
    async with FakeRemote() as remote:
        remote.models = [{"id": f"m{number}"} for number in range(num_models)]
        async with Prober(remote.url, DIALECTS["vllm"]) as prober:
            assert len(await prober.fetch_models(60.0)) == num_models
    assert [one is threading.main_thread() for one in threads] == [is_on_the_loop]


async def test_a_list_that_cannot_be_read_in_a_thread_is_a_failed_poll() -> None:
    async with FakeRemote() as remote:
        remote.models = [{}] * 100_000
        async with Prober(remote.url, DIALECTS["vllm"]) as prober:
            with pytest.raises(ReplicaProbeFailed, match="/v1/models returned more than 100000"):
                await prober.fetch_models(60.0)
