"""A run under faults passes only if its faults were injected and struck streams."""

from __future__ import annotations

import pytest

from chaos.attempt_log import FailedAttempt
from chaos.mixed_load.load_report import (
    MAX_BEYOND_LIMIT,
    MAX_CONTINUATIONS,
    find_run_failures,
    is_beyond_limit,
)


@pytest.mark.parametrize(
    ("num_injected", "num_struck", "num_errors", "failures"),
    [
        (200, 1, 0, []),
        (199, 1, 0, ["199 of 200 faults were injected"]),
        (200, 0, 0, ["no stream was struck by a fault"]),
        (200, 1, 2, ["2 errors"]),
        (0, 0, 1, ["0 of 200 faults were injected", "no stream was struck by a fault", "1 errors"]),
    ],
)
def test_a_run_without_effect_has_not_passed(
    num_injected: int, num_struck: int, num_errors: int, failures: list[str]
) -> None:
    found = find_run_failures(
        num_ordered=200, num_injected=num_injected, num_struck=num_struck, num_errors=num_errors
    )
    assert found == failures


def test_more_than_a_few_streams_at_the_limit_of_continuations_are_no_chance() -> None:
    for num, failures in ((MAX_BEYOND_LIMIT, 0), (MAX_BEYOND_LIMIT + 1, 1)):
        found = find_run_failures(
            num_ordered=1, num_injected=1, num_struck=9, num_errors=0, num_beyond_limit=num
        )
        assert len(found) == failures


def _failed(*steps: str, outcome: str = "broken") -> list[FailedAttempt]:
    reasons = {"give_up": "no_attempt_left"}
    return [FailedAttempt("r0", outcome, "", step, reasons.get(step, "")) for step in steps]


def test_a_stream_may_be_given_up_after_all_its_continuations() -> None:
    continued = ["continue_elsewhere"] * MAX_CONTINUATIONS
    assert is_beyond_limit(_failed(*continued, "give_up"))
    assert is_beyond_limit(_failed("retry_elsewhere", *continued, "give_up"))


def test_a_stream_may_be_given_up_when_too_many_replicas_ended_under_it() -> None:
    ended = FailedAttempt("r0", "broken", "", "give_up", "ends_replicas")
    assert is_beyond_limit([*_failed("continue_elsewhere"), ended])


def test_a_stream_may_not_be_given_up_before() -> None:
    continued = ["continue_elsewhere"] * (MAX_CONTINUATIONS - 1)
    assert not is_beyond_limit([])
    assert not is_beyond_limit(_failed(*continued, "give_up"))
    assert not is_beyond_limit(_failed("retry_elsewhere", *continued, "give_up"))
    assert not is_beyond_limit(
        _failed(*continued)
        + _failed("continue_elsewhere", outcome="unreachable")
        + _failed("give_up")
    )
    assert not is_beyond_limit(_failed(*continued, "continue_elsewhere", "continue_elsewhere"))
