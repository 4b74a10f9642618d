"""What the attempts of one request say about the replicas that failed it."""

from __future__ import annotations

import pytest

from paceline.runtime.gateway.http.errors import Problem
from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.proxy.attempt_end import COMPLETED, AttemptEnd
from paceline.runtime.gateway.proxy.request_verdicts import RequestVerdicts
from paceline.runtime.gateway.proxy.second_opinions import NUM_TRUSTED, SecondOpinions
from paceline.runtime.gateway.routing.breaker import Breakers, Ticket
from paceline.runtime.gateway.routing.verdicts import Verdict
from paceline.runtime.gateway.settings import FailureSettings

BROKEN = AttemptEnd(Outcome.BROKEN, Problem(503, "x", "engine_unavailable"))
TIMED_OUT = AttemptEnd(Outcome.TIMED_OUT, Problem(504, "x", "engine_timeout"))
ERROR = AttemptEnd(Outcome.ENGINE_ERROR, Problem(500, "x", "engine_error"))
MISDIRECTED = AttemptEnd(Outcome.MISDIRECTED, Problem(503, "x", "engine_misdirected"))
REFUSED = AttemptEnd(Outcome.ENGINE_REFUSED, Problem(400, "x", "invalid_value"))
NOT_FOUND = AttemptEnd(Outcome.ENGINE_REFUSED, Problem(404, "x", "not_found"))
BUSY = AttemptEnd(Outcome.ENGINE_REFUSED, Problem(429, "x", "rate_limited"))
GONE = AttemptEnd(Outcome.CLIENT_GONE)


class RecordingBreakers(Breakers):
    def __init__(self) -> None:
        super().__init__(FailureSettings())
        self.verdicts: list[tuple[str, Verdict]] = []

    def began(self, name: str, now_s: float) -> Ticket:
        return RecordingTicket(super().began(name, now_s), self.verdicts)


class RecordingTicket(Ticket):
    def __init__(self, ticket: Ticket, verdicts: list[tuple[str, Verdict]]) -> None:
        for name in Ticket.__slots__:
            setattr(self, name, getattr(ticket, name))
        self._verdicts = verdicts

    def decided(self, verdict: Verdict, now_s: float) -> None:
        self._verdicts.append((self.name, verdict))
        super().decided(verdict, now_s)


class Request:
    """One request, whose attempts a test ends."""

    def __init__(self, opinions: SecondOpinions | None = None) -> None:
        self.breakers = RecordingBreakers()
        self.verdicts = RequestVerdicts(opinions or SecondOpinions())

    def attempt(self, name: str, end: AttemptEnd, *, had_begun: bool = False) -> None:
        ticket = self.breakers.began(name, 0.0)
        if end.suspicion is not None:
            ticket.suspended()
        self.verdicts.ended(ticket, end, had_begun=had_begun)

    def close(self) -> list[tuple[str, Verdict]]:
        self.verdicts.close(is_served=False)
        assert [self.breakers.num_undecided(name) for name in "ab"] == [0, 0]
        return self.breakers.verdicts


@pytest.mark.parametrize("end", [BROKEN, TIMED_OUT, ERROR, MISDIRECTED])
def test_a_replica_whose_request_another_one_serves_is_at_fault(end: AttemptEnd) -> None:
    request = Request()
    request.attempt("a", end)
    request.attempt("b", COMPLETED)
    assert request.close() == [("a", Verdict.AT_FAULT)]


@pytest.mark.parametrize("end", [BROKEN, TIMED_OUT, ERROR, MISDIRECTED])
@pytest.mark.parametrize("had_begun", [False, True])
def test_a_request_that_two_replicas_fail_is_the_cause_itself(
    end: AttemptEnd, had_begun: bool
) -> None:
    request = Request()
    request.attempt("a", end, had_begun=had_begun)
    request.attempt("b", end, had_begun=had_begun)
    assert request.close() == [("a", Verdict.AGREED), ("b", Verdict.AGREED)]


def test_the_verdict_comes_with_the_first_tokens_of_another_replica() -> None:
    request = Request()
    request.attempt("a", ERROR)
    request.verdicts.another_answers()
    assert request.breakers.verdicts == [("a", Verdict.AT_FAULT)]


def test_a_stream_that_broke_in_the_middle_is_judged_at_its_end() -> None:
    """Another replica may break at the same token."""
    for last, verdict in ((COMPLETED, Verdict.AT_FAULT), (GONE, Verdict.UNDECIDED)):
        request = Request()
        request.attempt("a", BROKEN, had_begun=True)
        request.verdicts.another_answers()
        assert request.breakers.verdicts == []
        request.attempt("b", last)
        assert request.close() == [("a", verdict)]


def test_a_stream_that_another_replica_continues_is_no_load_on_the_first() -> None:
    for end in (BROKEN, TIMED_OUT, ERROR, MISDIRECTED):
        request = Request()
        request.attempt("a", end, had_begun=True)
        assert request.breakers.num_undecided("a") == 1
        request.verdicts.another_answers()
        assert request.breakers.num_undecided("a") == 0
        assert request.breakers.verdicts == []


def test_an_error_that_repeats_in_a_chat_says_little_if_the_continuation_works() -> None:
    """The rest of the stream is a plain completion: poison may need the chat."""
    request = Request()
    request.attempt("a", ERROR, had_begun=True)
    request.verdicts.another_answers()
    request.attempt("b", COMPLETED, had_begun=True)
    assert request.close() == [("a", Verdict.UNDECIDED)]


def test_a_429_that_another_replica_contradicts_is_load_and_no_fault() -> None:
    for answers in (True, False):
        request = Request()
        request.attempt("a", BUSY)
        if answers:
            request.verdicts.another_answers()
        request.attempt("b", COMPLETED)
        assert request.close() == [("a", Verdict.SHED)]


def test_one_request_counts_once_against_a_replica() -> None:
    request = Request()
    for _ in range(5):
        request.attempt("a", BROKEN)
    assert request.close() == [("a", Verdict.NO_FAULT)] * 4 + [("a", Verdict.UNDECIDED)]


@pytest.mark.parametrize(
    ("end", "last", "verdicts"),
    [
        (REFUSED, COMPLETED, [("a", Verdict.AT_FAULT)]),
        (REFUSED, REFUSED, [("a", Verdict.NO_FAULT), ("b", Verdict.NO_FAULT)]),
        (REFUSED, GONE, [("a", Verdict.NO_FAULT)]),
    ],
)
def test_a_refusal_counts_only_if_another_replica_serves_the_request(
    end: AttemptEnd, last: AttemptEnd, verdicts: list[tuple[str, Verdict]]
) -> None:
    request = Request()
    request.attempt("a", end)
    assert request.verdicts.wants_opinion
    request.attempt("b", last)
    assert not request.verdicts.wants_opinion
    assert request.close() == verdicts


def test_replicas_that_agree_often_are_trusted_until_one_is_contradicted() -> None:
    opinions = SecondOpinions()
    for _ in range(NUM_TRUSTED):
        request = Request(opinions)
        request.attempt("a", REFUSED)
        request.attempt("b", REFUSED)
    request = Request(opinions)
    request.attempt("a", REFUSED)
    assert not request.verdicts.wants_opinion
    request.attempt("b", COMPLETED)
    request = Request(opinions)
    request.attempt("a", REFUSED)
    assert request.verdicts.wants_opinion


def test_refusals_with_different_statuses_do_not_agree() -> None:
    """One engine refuses the request; the other is a page that does not exist."""
    opinions = SecondOpinions()
    for _ in range(2 * NUM_TRUSTED):
        request = Request(opinions)
        request.attempt("a", NOT_FOUND)
        request.attempt("b", REFUSED)
    request = Request(opinions)
    request.attempt("a", NOT_FOUND)
    assert request.verdicts.wants_opinion
