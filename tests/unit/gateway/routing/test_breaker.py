"""The circuit breakers of the replicas."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.routing.breaker import Breakers, BreakerState, Ticket
from paceline.runtime.gateway.settings import FailureSettings

FAILURES = (Outcome.BROKEN, Outcome.TIMED_OUT, Outcome.ENGINE_ERROR, Outcome.MISDIRECTED)
NO_VERDICTS = tuple(
    outcome
    for outcome in Outcome
    if outcome not in (*FAILURES, Outcome.UNREACHABLE, Outcome.COMPLETED)
)
SETTINGS = FailureSettings(window_s=30, min_samples=10, open_s=1, max_open_s=30)


def end_one(breakers: Breakers, name: str, outcome: Outcome, now_s: float) -> None:
    breakers.began(name, now_s).ended(outcome, now_s)


def tripped(now_s: float = 0.0) -> Breakers:
    """Replica `a` out since `now_s`, `b` untouched."""
    breakers = Breakers(SETTINGS)
    end_one(breakers, "a", Outcome.UNREACHABLE, now_s)
    return breakers


def test_one_refused_connection_ejects_at_once() -> None:
    breakers = tripped()
    assert breakers.admitted(["a", "b"], 0.0) == ["b"]
    assert breakers.states(0.0) == {"a": BreakerState.OPEN}


@pytest.mark.parametrize("outcome", FAILURES)
def test_half_of_ten_attempts_failed_ejects(outcome: Outcome) -> None:
    breakers = Breakers(SETTINGS)
    for index in range(9):
        end_one(breakers, "a", outcome if index % 2 else Outcome.COMPLETED, float(index))
    assert breakers.admitted(["a", "b"], 9.0) == ["a", "b"]
    end_one(breakers, "a", outcome, 9.0)
    assert breakers.admitted(["a", "b"], 9.0) == ["b"]


def test_failures_leave_the_window_with_time() -> None:
    breakers = Breakers(SETTINGS)
    for _ in range(9):
        end_one(breakers, "a", Outcome.BROKEN, 0.0)
    end_one(breakers, "a", Outcome.BROKEN, 31.0)
    assert breakers.admitted(["a", "b"], 31.0) == ["a", "b"]


@pytest.mark.parametrize("outcome", NO_VERDICTS)
def test_what_the_client_or_the_gateway_causes_ejects_no_replica(outcome: Outcome) -> None:
    breakers = Breakers(SETTINGS)
    for _ in range(100):
        end_one(breakers, "a", outcome, 0.0)
    assert breakers.admitted(["a", "b"], 0.0) == ["a", "b"]


def test_bad_requests_do_not_hide_failures() -> None:
    breakers = Breakers(SETTINGS)
    for _ in range(100):
        end_one(breakers, "a", Outcome.ENGINE_REFUSED, 0.0)
    for _ in range(10):
        end_one(breakers, "a", Outcome.ENGINE_ERROR, 0.0)
    assert breakers.admitted(["a", "b"], 0.0) == ["b"]


def test_half_open_admits_one_request_at_a_time() -> None:
    breakers = tripped()
    assert breakers.admitted(["a", "b"], 1.0) == ["a", "b"]
    probe = breakers.began("a", 1.0)
    assert breakers.states(1.0) == {"a": BreakerState.HALF_OPEN}
    assert breakers.admitted(["a", "b"], 1.0) == ["b"]
    probe.ended(Outcome.COMPLETED, 2.0)
    assert breakers.states(2.0) == {"a": BreakerState.CLOSED}


def test_probe_that_streams_closes_with_its_first_bytes() -> None:
    breakers = tripped()
    probe = breakers.began("a", 1.0)
    probe.answered(1.2)
    assert breakers.states(1.2) == {"a": BreakerState.CLOSED}
    probe.ended(Outcome.BROKEN, 90.0)
    assert breakers.states(90.0) == {"a": BreakerState.CLOSED}


@pytest.mark.parametrize("outcome", NO_VERDICTS)
def test_probe_without_a_verdict_admits_another(outcome: Outcome) -> None:
    breakers = tripped()
    end_one(breakers, "a", outcome, 1.0)
    assert breakers.states(1.0) == {"a": BreakerState.HALF_OPEN}
    assert breakers.admitted(["a", "b"], 1.0) == ["a", "b"]


def test_a_half_open_one_is_preferred_until_it_has_been_tried() -> None:
    breakers = tripped()
    assert breakers.order_among_equals("unknown", 0.0) == 1
    assert [breakers.order_among_equals("a", now_s) for now_s in (0.5, 1.0)] == [1, 0]
    probe = breakers.began("a", 1.0)
    probe.ended(Outcome.CLIENT_GONE, 2.0)
    assert breakers.order_among_equals("a", 2.0) == 2
    breakers.began("a", 3.0).ended(Outcome.COMPLETED, 4.0)
    assert breakers.order_among_equals("a", 4.0) == 1


def test_after_three_failed_trials_an_idle_fleet_leaves_it_alone() -> None:
    breakers, now_s, orders = tripped(), 0.0, []
    for _ in range(5):
        now_s += 100.0
        orders.append(breakers.order_among_equals("a", now_s))
        breakers.began("a", now_s).ended(Outcome.TIMED_OUT, now_s)
    assert orders == [0, 0, 0, 2, 2]


def test_probe_without_an_answer_admits_the_next_one_after_a_while() -> None:
    breakers = tripped()
    first = breakers.began("a", 1.0)
    assert breakers.admitted(["a", "b"], 30.9) == ["b"]
    assert breakers.admitted(["a", "b"], 31.0) == ["a", "b"]
    breakers.began("a", 31.0)
    first.ended(Outcome.CLIENT_GONE, 32.0)
    assert breakers.admitted(["a", "b"], 32.0) == ["b"], "the second probe is still out"


def test_open_time_doubles_up_to_its_cap_less_a_fifth() -> None:
    breakers, now_s = Breakers(SETTINGS), 0.0
    for full_s in (1, 2, 4, 8, 16, 30, 30, 30):
        end_one(breakers, "a", Outcome.UNREACHABLE, now_s)
        assert breakers.states(now_s + 0.8 * full_s - 0.001)["a"] is BreakerState.OPEN
        now_s += full_s
        assert breakers.states(now_s)["a"] is BreakerState.HALF_OPEN


def test_open_time_begins_anew_after_a_long_good_time_only() -> None:
    for good_s, is_short in ((29.0, False), (30.0, True)):
        breakers = tripped()
        end_one(breakers, "a", Outcome.COMPLETED, 1.0)
        end_one(breakers, "a", Outcome.UNREACHABLE, 1.0 + good_s)
        is_half_open = breakers.states(2.0 + good_s)["a"] is BreakerState.HALF_OPEN
        assert is_half_open is is_short


def test_jitter_differs_between_replicas_and_not_between_runs() -> None:
    def first_half_open_ms(name: str) -> int:
        breakers = Breakers(SETTINGS)
        end_one(breakers, name, Outcome.UNREACHABLE, 0.0)
        return next(
            ms for ms in range(2000) if breakers.states(ms / 1000)[name] is BreakerState.HALF_OPEN
        )

    times_ms = [first_half_open_ms(f"replica-{index}") for index in range(20)]
    assert times_ms == [first_half_open_ms(f"replica-{index}") for index in range(20)]
    assert len(set(times_ms)) > 15
    assert all(800 <= ms <= 1000 for ms in times_ms)


def test_attempts_from_before_a_trip_say_nothing() -> None:
    breakers = Breakers(SETTINGS)
    old = [breakers.began("a", 0.0) for _ in range(64)]
    for ticket in old:
        ticket.ended(Outcome.UNREACHABLE, 0.1)
    assert breakers.states(1.1) == {"a": BreakerState.HALF_OPEN}, "64 deaths are one trip"


def test_attempts_from_before_the_recovery_do_not_eject_again() -> None:
    breakers = tripped()
    probe = breakers.began("a", 1.0)
    forced = breakers.began("a", 1.0)
    probe.ended(Outcome.COMPLETED, 1.5)
    forced.ended(Outcome.UNREACHABLE, 2.0)
    assert breakers.states(2.0) == {"a": BreakerState.CLOSED}


def test_last_replica_is_never_ejected() -> None:
    breakers = tripped()
    assert breakers.admitted(["a"], 0.5) == ["a"]
    end_one(breakers, "b", Outcome.UNREACHABLE, 0.5)
    assert breakers.admitted(["a", "b"], 0.5) == ["a", "b"]


@pytest.mark.parametrize("is_hung", [False, True])
def test_with_all_ejected_those_that_still_answered_some_go_first(is_hung: bool) -> None:
    breakers = Breakers(SETTINGS)
    ticket = breakers.began("a", 0.0)
    if is_hung:
        breakers.trip("a", 0.0)
    else:
        ticket.ended(Outcome.UNREACHABLE, 0.0)
    for _ in range(10):
        end_one(breakers, "b", Outcome.ENGINE_ERROR, 0.0)
    assert breakers.admitted(["a", "b"], 0.0) == ["b"]


def test_forced_failures_do_not_prolong_the_ejection() -> None:
    breakers = tripped()
    for _ in range(50):
        end_one(breakers, "a", Outcome.UNREACHABLE, 0.5)
    assert breakers.states(1.0) == {"a": BreakerState.HALF_OPEN}


def test_a_hung_replica_is_tripped_from_outside_once() -> None:
    breakers = Breakers(SETTINGS)
    breakers.trip("a", 0.0)
    assert breakers.states(0.0) == {}, "nothing is known of a replica without attempts"
    breakers.began("a", 0.0)
    breakers.trip("a", 1.0)
    breakers.trip("a", 1.1)
    assert breakers.states(1.1) == {"a": BreakerState.OPEN}
    assert breakers.states(2.0) == {"a": BreakerState.HALF_OPEN}


def test_a_replica_that_came_back_begins_anew() -> None:
    breakers = tripped()
    stale = breakers.began("a", 0.5)
    breakers.reset("a")
    assert breakers.admitted(["a", "b"], 0.5) == ["a", "b"]
    breakers.began("a", 0.6)
    stale.ended(Outcome.UNREACHABLE, 0.7)
    assert breakers.states(0.7) == {"a": BreakerState.CLOSED}


def test_replicas_that_left_are_forgotten() -> None:
    breakers = tripped()
    ticket = breakers.began("b", 0.0)
    breakers.forget(["b"])
    assert breakers.states(0.0) == {"b": BreakerState.CLOSED}
    breakers.forget([])
    ticket.ended(Outcome.UNREACHABLE, 0.0)
    assert breakers.states(0.0) == {}


def test_asking_keeps_nothing() -> None:
    breakers = Breakers(SETTINGS)
    breakers.admitted([f"replica-{index}" for index in range(1000)], 0.0)
    assert breakers.states(0.0) == {}


@pytest.mark.parametrize(("share", "is_ejected"), [(0.3, False), (0.8, True)], ids=["30 %", "80 %"])
def test_share_of_failures_decides(share: float, is_ejected: bool) -> None:
    """Thirty of a hundred failing are retried elsewhere; the capacity stays."""
    rng, breakers = random.Random(7), Breakers(replace(SETTINGS, min_samples=50))
    for index in range(500):
        outcome = Outcome.ENGINE_ERROR if rng.random() < share else Outcome.COMPLETED
        end_one(breakers, "a", outcome, index * 0.01)
    assert (breakers.states(5.0)["a"] is not BreakerState.CLOSED) is is_ejected


NAMES = ("a", "b", "c")


class BreakerMachine(RuleBasedStateMachine):
    """Any order of events: what holds always."""

    @initialize()
    def begin(self) -> None:
        self.breakers = Breakers(replace(SETTINGS, min_samples=3))
        self.now_s = 0.0
        self.out: list[Ticket] = []
        self.probes: dict[str, list[Ticket]] = {name: [] for name in NAMES}

    @rule(wait_s=st.sampled_from((0.0, 0.3, 1.0, 5.0, 29.0)))
    def wait(self, wait_s: float) -> None:
        self.now_s += wait_s

    @rule(data=st.data(), names=st.permutations(NAMES), num=st.integers(1, 3))
    def attempt(self, data: st.DataObject, names: list[str], num: int) -> None:
        asked = names[:num]
        before = self.breakers.states(self.now_s)
        admitted = self.breakers.admitted(asked, self.now_s)
        assert admitted
        assert admitted == [name for name in asked if name in admitted]
        closed = [n for n in asked if before.get(n, BreakerState.CLOSED) is BreakerState.CLOSED]
        assert set(closed) <= set(admitted)
        name = data.draw(st.sampled_from(admitted))
        if closed and before.get(name) is BreakerState.HALF_OPEN:
            young = [t for t in self.probes[name] if self.now_s - t.began_at_s < 30]
            assert not young, "a second probe while the first is out"
        ticket = self.breakers.began(name, self.now_s)
        if closed and before.get(name) is BreakerState.HALF_OPEN:
            self.probes[name].append(ticket)
        if closed:
            assert before.get(name) is not BreakerState.OPEN
        self.out.append(ticket)

    @precondition(lambda self: self.out)
    @rule(data=st.data(), outcome=st.sampled_from(Outcome))
    def end(self, data: st.DataObject, outcome: Outcome) -> None:
        ticket = self.out.pop(data.draw(st.integers(0, len(self.out) - 1)))
        before = self.breakers.states(self.now_s)
        ticket.ended(outcome, self.now_s)
        after = self.breakers.states(self.now_s)
        changed = {name for name in before if before[name] != after[name]}
        assert changed <= {ticket.name}
        if changed:
            assert outcome not in NO_VERDICTS
            if after[ticket.name] is BreakerState.CLOSED:
                assert outcome is Outcome.COMPLETED
                assert before[ticket.name] is BreakerState.HALF_OPEN
        self._drop_probe(ticket)

    @precondition(lambda self: self.out)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        ticket = data.draw(st.sampled_from(self.out))
        ticket.answered(self.now_s)
        if ticket in self.probes[ticket.name]:
            self._drop_probe(ticket)

    @rule(name=st.sampled_from(NAMES), is_reset=st.booleans())
    def change_from_outside(self, name: str, is_reset: bool) -> None:
        if is_reset:
            self.breakers.reset(name)
            assert name not in self.breakers.states(self.now_s)
        else:
            self.breakers.trip(name, self.now_s)
        self.probes[name].clear()

    @invariant()
    def half_open_comes_by_itself(self) -> None:
        late = self.breakers.states(self.now_s + SETTINGS.max_open_s)
        assert BreakerState.OPEN not in late.values()

    def _drop_probe(self, ticket: Ticket) -> None:
        probes = self.probes[ticket.name]
        if ticket in probes:
            probes.remove(ticket)


TestAnyOrderOfEvents = BreakerMachine.TestCase
TestAnyOrderOfEvents.settings = hypothesis_settings(
    max_examples=60, stateful_step_count=40, deadline=None, derandomize=True
)
