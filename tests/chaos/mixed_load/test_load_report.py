"""A run under faults passes only if its faults were injected and struck streams."""

from __future__ import annotations

import pytest

from chaos.attempt_log import FailedAttempt
from chaos.mixed_load.load_report import KindCounts, find_run_failures, note_stream
from chaos.mixed_load.soak_report import sum_up
from chaos.transcript import Transcript


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


def failed(reason: str) -> list[FailedAttempt]:
    step = "give_up" if reason in ("not_continuable", "no_attempt_left") else "continue_elsewhere"
    return [FailedAttempt("r0", "broken", "", step, reason)]


@pytest.mark.parametrize(
    ("reason", "num_struck", "num_beyond_limit"),
    [("no_attempt_left", 2, 1), ("no_attempt_left", 1, 0), ("not_continuable", 2, 0)],
)
def test_a_stream_beyond_the_limit_could_be_continued_and_lost_two_replicas(
    reason: str, num_struck: int, num_beyond_limit: int
) -> None:
    counts = KindCounts()
    ended = Transcript(status=200, text="x", error={"message": "broken"})
    note_stream(counts, ended, failed(reason), num_struck)
    assert (counts.num_error_events, counts.num_beyond_limit) == (1, num_beyond_limit)


def a_round(**fields: object) -> dict[str, object]:
    """A round of a soak without errors, in which one slow stream was struck."""
    strike = {"replica": 0, "signal": "SIGSTOP", "is_noticed": True}
    return {
        "duration_s": 1.0,
        "strikes": [strike],
        "num_streams": 2,
        "endings": {"completed": 2},
        "kinds": {"greedy": {"num_interrupted": 1}},
        "styles": {"cut, read slowly": {"num_struck": 1}},
        "num_lost_before_first_token": 0,
        "longest_silence_s": 1.5,
        "num_leases_left": 0,
        "poison": {"num_requests": 3, "endings": {"refused 500": 3}, "errors": []},
        "steps": {},
        "errors": [],
        **fields,
    }


ERROR = {"kind": "greedy", "path": ["r0 [plain]!", "r1 [cut]"], "error": "text doubled: 'a'"}
POISON_OF_200 = {"num_requests": 1, "endings": {}, "errors": ["poison-0: completed"]}


@pytest.mark.parametrize(
    ("fields", "failures"),
    [
        ({}, []),
        ({"strikes": []}, ["0 of 1 faults were injected"]),
        ({"errors": [ERROR]}, ["1 errors", "1 streams: greedy, at last on r1 [cut]: text doubled"]),
        ({"poison": POISON_OF_200}, ["1 poison requests did not get their error"]),
        ({"num_leases_left": 1}, ["1 leases were left after a round"]),
        (
            {"strikes": [{"is_noticed": False}]},
            ["1 stopped replicas stayed in service"],
        ),
        (
            {"styles": {"cut": {"num_struck": 0}}},
            ["no stream was struck at a replica with the style cut"],
        ),
    ],
)
def test_a_soak_names_every_reason_for_which_it_has_not_passed(
    fields: dict[str, object], failures: list[str]
) -> None:
    total = sum_up([a_round(**fields)], 1)
    assert total["failures"] == failures
    assert total["is_passed"] is not bool(failures)


def test_the_rounds_of_a_soak_are_added_up() -> None:
    total = sum_up([a_round(), a_round(longest_silence_s=2.5)], 2)
    assert total["is_passed"]
    assert (total["num_streams"], total["longest_silence_s"]) == (4, 2.5)
    assert total["poison_endings"] == {"refused 500": 6}
    assert total["styles"] == {"cut, read slowly": {"num_struck": 2}}
