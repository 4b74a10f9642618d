"""When a failed request looks for a replica, and which one it takes, in simulated time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from paceline.runtime.gateway.delivered import AnswerPart, TokenDelta
from paceline.runtime.gateway.http.response import ClientResponse
from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.proxy.lease import LeaseTable
from paceline.runtime.gateway.proxy.replica_chooser import ReplicaChooser
from paceline.runtime.gateway.replicas import Replica
from paceline.runtime.gateway.routing.breaker import Breakers
from paceline.runtime.gateway.routing.router import Router
from paceline.runtime.gateway.routing.stream_progress import ProgressWatch
from paceline.runtime.gateway.settings import FailureSettings, GatewaySettings
from unit.gateway.admission.plans import plan
from unit.gateway.admission.simulated_loop import run_simulated

R0 = Replica("r0", "/r0.sock", "m", "ready", revision="a")
R1 = Replica("r1", "/r1.sock", "m", "ready", revision="a")
OTHER = Replica("r2", "/r2.sock", "m", "ready", revision="b")


class Watched:
    """A chooser over replicas that a test sets, with the moments at which it looked for one."""

    def __init__(self, *replicas: Replica, replica_wait_s: float = 1.0) -> None:
        self.current = list(replicas)
        self.looked_at_s: list[float] = []
        self.sent: list[bytes] = []
        settings = GatewaySettings(failures=FailureSettings(replica_wait_s=replica_wait_s))
        self.breakers = Breakers(settings.failures)
        leases = LeaseTable(self.breakers, ProgressWatch())
        router = Router(self, leases, self.breakers, settings.admission)
        self.reply = ClientResponse(self._send, "id")
        self.chooser = ReplicaChooser(router, settings, plan(), self.reply)
        self._began_s = asyncio.get_running_loop().time()

    def replicas(self) -> Sequence[Replica]:
        at_s = asyncio.get_running_loop().time() - self._began_s
        if at_s not in self.looked_at_s[-1:]:
            self.looked_at_s.append(at_s)
        return self.current

    async def _send(self, message: Any) -> None:
        self.sent.append(message.get("body", b""))

    def deliver(self) -> None:
        self.reply.delivered.commit(AnswerPart(b"a", TokenDelta(0, [4], "a")))


def simulate(scenario: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(1000.0):
            await scenario()

    run_simulated(limited())


def test_the_time_between_two_looks_grows_by_three_tenths() -> None:
    """The last wait begins before 1 s has passed and ends after it."""

    async def scenario() -> None:
        watched = Watched()
        assert await watched.chooser.wait() is None
        expected_s = [0.05, 0.115, 0.1995, 0.30935, 0.45216, 0.6378, 0.87914, 1.19288]
        assert watched.looked_at_s == pytest.approx(expected_s, abs=1e-4)
        assert watched.chooser.waited_s == pytest.approx(1.1929, abs=1e-4)
        assert await watched.chooser.wait() is None
        assert len(watched.looked_at_s) == 8

    simulate(scenario)


def test_the_time_between_two_looks_grows_to_half_a_second() -> None:
    async def scenario() -> None:
        watched = Watched(replica_wait_s=5.0)
        await watched.chooser.wait()
        *_, before, last = watched.looked_at_s
        assert last - before == pytest.approx(0.5)
        assert len(watched.looked_at_s) == 16

    simulate(scenario)


def test_a_replica_that_failed_may_be_taken_after_a_wait() -> None:
    async def scenario() -> None:
        watched = Watched(R0)
        watched.chooser.note_failure(R0)
        assert watched.chooser.choose() is None
        assert await watched.chooser.wait() is R0
        assert watched.chooser.waited_s == pytest.approx(0.05)

    simulate(scenario)


def test_the_last_look_is_made_when_the_whole_time_has_been_waited() -> None:
    async def scenario() -> None:
        watched = Watched(R0)
        watched.chooser.waited_s = 1.0
        assert await watched.chooser.wait() is R0
        watched.chooser.waited_s = 1.001
        assert await watched.chooser.wait() is None

    simulate(scenario)


def test_a_client_whose_stream_has_begun_receives_a_comment_every_five_seconds() -> None:
    async def scenario() -> None:
        for has_begun, num_comments in ((True, 2), (False, 0)):
            watched = Watched(replica_wait_s=12.0)
            if has_begun:
                await watched.reply.begin_stream()
                watched.sent.clear()
            assert await watched.chooser.wait() is None
            assert watched.sent == [b": waiting for a replica\n\n"] * num_comments

    simulate(scenario)


def test_a_replica_with_an_open_breaker_is_not_taken_again() -> None:
    async def scenario() -> None:
        watched = Watched(R0)
        ticket = watched.breakers.began("r0", 0.0)
        ticket.ended(Outcome.UNREACHABLE, 1e12)
        assert watched.chooser.choose() is None

    simulate(scenario)


@pytest.mark.parametrize(("has_added_tokens", "expected"), [(False, None), (True, R0)])
def test_after_progress_the_replicas_that_failed_before_are_tried_again(
    has_added_tokens: bool, expected: Replica | None
) -> None:
    async def scenario() -> None:
        watched = Watched(R0, R1)
        watched.chooser.note_failure(R0)
        assert watched.chooser.choose() is R1
        watched.chooser.note_failure(R1, has_added_tokens=has_added_tokens)
        assert watched.chooser.choose() is expected

    simulate(scenario)


def test_a_stream_stays_with_the_revision_of_the_replica_that_began_it() -> None:
    async def scenario() -> None:
        watched = Watched(R0, OTHER, R1)
        watched.chooser.note_failure(OTHER)  # before the client has received anything
        assert watched.chooser.choose() is R0
        watched.deliver()
        watched.chooser.note_failure(R0)
        assert watched.chooser.choose() is R1
        watched.current = [OTHER]
        assert await watched.chooser.wait() is None
        watched.current = [replace(OTHER, revision="a")]
        watched.chooser.waited_s = 0.0
        watched.chooser.note_failure(R1)
        assert await watched.chooser.wait() is watched.current[0]

    simulate(scenario)


def opened(watched: Watched, *names: str, outcome: Outcome = Outcome.BROKEN) -> None:
    """Open these breakers for ten minutes."""
    for name in names:
        for _ in range(10):
            watched.breakers.began(name, 1e12).ended(outcome, 1e12)


def test_the_breakers_that_requests_of_others_have_opened_do_not_stop_a_failover() -> None:
    async def scenario() -> None:
        watched = Watched(R0, R1)
        opened(watched, "r0", "r1")
        watched.chooser.note_failure(R0)
        assert watched.chooser.choose() is R1

    simulate(scenario)


def test_a_replica_that_accepts_no_connection_is_not_chosen_while_its_breaker_is_open() -> None:
    async def scenario() -> None:
        watched = Watched(R0, R1)
        opened(watched, "r1", outcome=Outcome.UNREACHABLE)
        watched.chooser.note_failure(R0)
        assert watched.chooser.choose() is None
        assert await watched.chooser.wait() is R0

    simulate(scenario)


def test_the_only_replica_is_tried_again_although_its_breaker_is_open() -> None:
    """After the time for which a breaker first stays open, one second."""

    async def scenario() -> None:
        watched = Watched(R0, replica_wait_s=5.0)
        opened(watched, "r0")
        watched.chooser.note_failure(R0)
        assert watched.chooser.choose() is None
        assert await watched.chooser.wait() is R0
        assert 1.0 <= watched.chooser.waited_s < 1.5

    simulate(scenario)


def test_a_replica_that_rejected_the_request_is_not_waited_for() -> None:
    async def scenario() -> None:
        watched = Watched(R0, R1)
        watched.chooser.note_failure(R0)
        watched.chooser.note_failure(R1, has_added_tokens=True, is_rejection=True)
        assert watched.chooser.choose() is R0
        watched.chooser.note_failure(R0)
        assert watched.chooser.choose_failed() is R0
        watched.current = [R1]
        assert watched.chooser.choose_failed() is None
        assert await watched.chooser.wait() is None

    simulate(scenario)
