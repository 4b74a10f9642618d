"""Requests that wait for slots which other processes leave idle, in simulated time.

r0 has slots that this process reaches once the others have handed them over: 0.5 s at most.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from paceline.runtime.gateway.admission import Overloaded, RefusalReason
from paceline.runtime.gateway.admission.queue import AdmissionQueue
from paceline.runtime.gateway.peers import SlotQuota
from paceline.runtime.gateway.settings import AdmissionSettings
from unit.gateway.admission.plans import plan
from unit.gateway.admission.several_replicas import Claim, SeveralReplicas
from unit.gateway.admission.test_queue_moments import after, num_timers, simulate


class Shared:
    """A queue before one replica with a quota of one slot."""

    def __init__(
        self, num_reachable: int, settings: AdmissionSettings | None = None, limit: int = 1
    ) -> None:
        self.source = SeveralReplicas({"r0": SlotQuota(1, limit, num_reachable)})
        self.length = 0
        self.refused: Counter[RefusalReason] = Counter()
        self.queue: AdmissionQueue[Claim] = AdmissionQueue(
            settings or AdmissionSettings(), self.source, self
        )

    def queue_changed(self, by: int) -> None:
        self.length += by

    def admission_refused(self, reason: RefusalReason) -> None:
        self.refused[reason] += 1

    def set_limit(self, limit: int) -> None:
        self.source.current["r0"] = SlotQuota(1, limit, 2)
        self.queue.recheck()

    async def enter(self, num_sequences: int = 1, time_left_s: float = 60.0) -> float:
        """Returns the seconds until the request was admitted; its slots are kept."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        await self.queue.slot(plan(num_sequences), time_left_s).__aenter__()
        return loop.time() - began_s

    async def refusal(
        self, num_sequences: int = 1, time_left_s: float = 60.0
    ) -> tuple[RefusalReason, float, int]:
        """Why a request is refused, after how many seconds, and its Retry-After."""
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        with pytest.raises(Overloaded) as refused:
            await self.queue.slot(plan(num_sequences), time_left_s).__aenter__()
        waited_s = round(loop.time() - began_s, 6)
        return refused.value.reason, waited_s, refused.value.retry_after_s

    async def learn(self, hold_s: float) -> None:
        async with self.queue.slot(plan(), 60.0):
            await asyncio.sleep(hold_s)


def test_a_slot_that_is_handed_over_is_given_at_once() -> None:
    async def scenario() -> None:
        shared = Shared(2)
        await shared.enter()
        after(0.2, lambda: shared.set_limit(2))
        assert await shared.enter() == pytest.approx(0.2)
        assert (shared.length, num_timers()) == (0, 0)
        assert not shared.queue._num_unjudged  # a kind without any is forgotten

    simulate(scenario)


def test_limits_on_waiting_apply_after_half_a_second() -> None:
    """A request takes 20 s; a second one is refused at once where no slot is within reach."""

    async def scenario() -> None:
        for num_reachable, waited_s in ((2, 0.5), (1, 0.0), (0, 0.0)):
            shared = Shared(num_reachable)
            await shared.learn(20.0)
            await shared.enter()
            reason, after_s, _ = await shared.refusal()
            assert (reason, after_s) == (RefusalReason.WAIT_TOO_LONG, waited_s)
            assert shared.refused == {reason: 1}
            assert (shared.length, num_timers()) == (0, 0)

    simulate(scenario)


def test_held_and_waiting_sequences_and_its_own_must_be_within_reach() -> None:
    """Four within reach: one held and two waiting leave one."""

    async def scenario() -> None:
        shared = Shared(4)
        await shared.learn(20.0)
        await shared.enter()
        waiting = asyncio.ensure_future(shared.refusal(2))
        await asyncio.sleep(0)
        assert (await shared.refusal(2))[1] == 0.0
        assert (await shared.refusal(1))[1] == 0.5
        await waiting

    simulate(scenario)


def test_a_request_that_may_wait_on_waits_as_long_as_any_other_in_all() -> None:
    async def scenario() -> None:
        shared = Shared(2)
        await shared.enter()
        assert (await shared.refusal())[:2] == (RefusalReason.WAITED_TOO_LONG, 10.0)
        assert (await shared.refusal(time_left_s=3.0))[:2] == (RefusalReason.WAITED_TOO_LONG, 3.0)
        assert (await shared.refusal(time_left_s=0.25))[:2] == (
            RefusalReason.WAITED_TOO_LONG,
            0.5,
        )
        assert (shared.length, num_timers()) == (0, 0)

    simulate(scenario)


@pytest.mark.parametrize(
    ("time_left_s", "expected"),
    [(4.25, (RefusalReason.DEADLINE, 0.5)), (4.75, (RefusalReason.WAITED_TOO_LONG, 2.75))],
)
def test_the_time_already_waited_is_taken_off_the_deadline(
    time_left_s: float, expected: tuple[RefusalReason, float]
) -> None:
    """One slot of 2 s: the request would have its answer 4 s after it is judged."""

    async def scenario() -> None:
        shared = Shared(2)
        await shared.learn(2.0)
        await shared.enter()
        assert (await shared.refusal(time_left_s=time_left_s))[:2] == expected

    simulate(scenario)


def test_only_requests_before_it_count_when_one_is_judged_late() -> None:
    async def scenario() -> None:
        shared = Shared(3, AdmissionSettings(max_queue=1))
        await shared.enter()
        first, second = await asyncio.gather(shared.refusal(), shared.refusal())
        assert first[:2] == (RefusalReason.WAITED_TOO_LONG, 10.0)
        assert second[:2] == (RefusalReason.QUEUE_FULL, 0.5)

    simulate(scenario)


@pytest.mark.parametrize(
    ("asked_after_s", "retry_after_s"),
    [
        (0.4, 4),  # the first request does not count as waiting: 2 positions of 2 s
        (2.5, 8),  # since 2 s every slot is held: 2 · (2 + 2) s
    ],
)
def test_time_counts_as_busy_once_no_slot_is_left_idle(
    asked_after_s: float, retry_after_s: int
) -> None:
    """One slot of 2 s is held, one request waits, the next one finds the queue full."""

    async def scenario() -> None:
        shared = Shared(2, AdmissionSettings(max_queue=1))
        await shared.learn(2.0)
        await shared.enter()
        waiting = asyncio.ensure_future(shared.enter())
        await asyncio.sleep(asked_after_s)
        assert await shared.refusal() == (RefusalReason.QUEUE_FULL, 0.0, retry_after_s)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert (shared.length, num_timers()) == (0, 0)

    simulate(scenario)


def test_a_request_that_left_while_it_waited_for_an_idle_slot_hides_no_later_one() -> None:
    """One slot of 2 s is held. After 2 s with a waiting request: 2 · (2 + 2) s to the next one."""

    async def scenario() -> None:
        shared = Shared(2, AdmissionSettings(max_queue=1))
        await shared.learn(2.0)
        await shared.enter()
        leaving = asyncio.ensure_future(shared.enter())
        await asyncio.sleep(0.25)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        shared.source.current["r0"] = SlotQuota(1, 1, 1)  # no slot is left idle
        waiting = asyncio.ensure_future(shared.enter())
        await asyncio.sleep(2.0)
        assert await shared.refusal() == (RefusalReason.QUEUE_FULL, 0.0, 8)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    simulate(scenario)
