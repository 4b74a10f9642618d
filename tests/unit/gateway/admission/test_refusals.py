"""A refusal at admission is an HTTP error with Retry-After."""

from __future__ import annotations

from paceline.runtime.gateway.admission import Overloaded, RefusalReason


def test_a_refusal_says_when_to_retry() -> None:
    overloaded = Overloaded(RefusalReason.WAIT_TOO_LONG, 7)
    problem = overloaded.problem
    assert (problem.status, problem.code) == (503, "overloaded")
    assert (b"retry-after", b"7") in problem.headers()
    assert Overloaded(RefusalReason.NO_REPLICA, 5).problem.code == "engine_unavailable"


def test_every_reason_has_a_message_of_its_own() -> None:
    refused = [Overloaded(reason, 5) for reason in RefusalReason]
    assert len({overloaded.problem.message for overloaded in refused}) == len(refused) == 5
    assert [str(overloaded) for overloaded in refused] == [reason.value for reason in RefusalReason]
