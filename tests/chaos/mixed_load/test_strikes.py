"""Which attempts were struck, by the replicas' own records."""

from __future__ import annotations

import pytest

from chaos.attempt_log import FailedAttempt
from chaos.mixed_load.strikes import Attempt, Strike, count_struck, struck_attempts
from paceline.testing.mock_vllm import RequestRecord

STRIKE = Strike(0, "SIGKILL", 100.0, 102.0)


def attempt(
    replica: int, begun_s: float, ending: str | None = None, ended_s: float | None = None
) -> Attempt:
    record = RequestRecord(1, 2, "id", "route", "0", 9, 9, 0, begun_s)
    record.ending, record.ended_s = ending, ended_s
    return Attempt(replica, record)


@pytest.mark.parametrize(
    ("one", "ended_s", "is_struck"),
    [
        (attempt(0, 90), 110, True),
        (attempt(1, 90), 110, False),
        (attempt(0, 90), 95, False),
        (attempt(0, 105), 110, False),
        (attempt(0, 90, "aborted", 95), 110, False),
        (attempt(0, 90, "aborted", 102), 110, True),
        # sent in whole into buffers from which the gateway had not read it
        (attempt(0, 90, "finished", 95), 110, True),
        # a stopped replica notes a request when it runs again
        (attempt(0, 102.5, "aborted", 102.5), 110, True),
    ],
)
def test_an_attempt_is_struck_if_its_replica_failed_before_it_was_ended(
    one: Attempt, ended_s: float, is_struck: bool
) -> None:
    assert struck_attempts([one], [STRIKE], ended_s) == [one] * is_struck


def test_every_struck_attempt_counts() -> None:
    """Also where the second one was noted before the first."""
    attempts = [attempt(1, 103), attempt(0, 102.5, "aborted", 102.5)]
    strikes = [STRIKE, Strike(1, "SIGSTOP", 104.0, 110.0)]
    assert struck_attempts(attempts, strikes, 106) == attempts


@pytest.mark.parametrize(
    ("replica", "outcome", "ended_s", "num_struck"),
    [
        ("r0", "broken", 110, 1),
        ("r1", "broken", 110, 0),
        ("r0", "broken", 95, 0),
        ("r0", "unreachable", 110, 0),
    ],
)
def test_a_replica_may_fail_before_it_notes_the_request(
    replica: str, outcome: str, ended_s: float, num_struck: int
) -> None:
    failed = [FailedAttempt(replica, outcome, "", "retry_elsewhere", "")]
    assert count_struck([], failed, [STRIKE], 90, ended_s) == num_struck
    noted = [attempt(0, 90)]
    assert count_struck(noted, failed, [STRIKE], 90, 110) == 1
