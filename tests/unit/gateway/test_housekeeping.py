"""Housekeeping forgets what was recorded of replicas that restarted or left."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

import pytest

from paceline.runtime.gateway.housekeeping import Housekeeping
from paceline.runtime.gateway.http.byte_budget import ByteBudget
from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.proxy.lease import LeaseTable
from paceline.runtime.gateway.proxy.upstream import Upstreams
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.routing.breaker import Breakers
from paceline.runtime.gateway.routing.stream_progress import ProgressWatch
from paceline.runtime.gateway.settings import FailureSettings
from unit.gateway.conftest import SETTINGS, FixedReplicas, until

R0 = Replica("r0", "/run/r0.sock", "tiny", "ready", max_model_len=100)
R1 = Replica("r1", "http://host:8000", "tiny", "ready", max_model_len=200)


async def test_a_replica_that_restarted_gets_a_new_breaker_and_one_that_left_is_forgotten() -> None:
    breakers = Breakers(FailureSettings())
    leases, source = LeaseTable(breakers, ProgressWatch()), FixedReplicas([R0, R1])
    housekeeping = Housekeeping(source, leases, Upstreams(SETTINGS), ByteBudget(2**40))
    now_s = time.monotonic()
    for name in ("r0", "r1"):
        breakers.began(name, now_s).ended(Outcome.UNREACHABLE, now_s)
    source.current = [replace(R0, state="down"), R1]
    housekeeping.run_once()
    assert set(leases.breaker_states()) == {"r0", "r1"}
    source.current = [R0, R1]
    housekeeping.run_once()
    assert set(leases.breaker_states()) == {"r1"}
    source.current = [R0]
    housekeeping.run_once()
    assert leases.breaker_states() == {}


async def test_a_round_that_fails_is_logged_and_the_next_one_runs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("paceline.runtime.gateway.housekeeping.HOUSEKEEPING_PERIOD_S", 0.001)
    leases, source = LeaseTable(Breakers(FailureSettings()), ProgressWatch()), FailingOnce([R0])
    housekeeping = Housekeeping(source, leases, Upstreams(SETTINGS), ByteBudget(2**40))
    running = asyncio.create_task(housekeeping.run())
    await until(lambda: source.num_calls > 3)
    running.cancel()
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "broken source" in caplog.text


def test_memory_is_returned_once_after_a_decline_that_lasts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    returned: list[str] = []
    monkeypatch.setattr(
        "paceline.runtime.gateway.housekeeping.return_freed_memory", lambda: returned.append("all")
    )
    budget = ByteBudget(2**40)
    leases, source = LeaseTable(Breakers(FailureSettings()), ProgressWatch()), FixedReplicas([R0])
    housekeeping = Housekeeping(source, leases, Upstreams(SETTINGS), budget)
    numbers_returned = []
    for num_bytes in (2**25, 2**25, 2**25 - 2**20, 2**25, 0, 0, 0):  # of the last round of a period
        for _ in range(9):
            housekeeping.run_once()
        request = budget.request(None)
        request.resize(num_bytes)
        housekeeping.run_once()
        numbers_returned.append(len(returned))
        request.release()
    assert numbers_returned == [0, 0, 0, 0, 0, 1, 1]


class FailingOnce(FixedReplicas):
    """A source whose first answer is an exception."""

    num_calls = 0

    def replicas(self) -> Sequence[Replica]:
        self.num_calls += 1
        if self.num_calls == 1:
            raise RuntimeError("broken source")
        return self.current
