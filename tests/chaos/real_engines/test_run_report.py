"""Lost and cut requests of a run on real engines are listed, and every request is counted."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest

from chaos.attempt_log import FailedAttempt
from chaos.real_engines.request_kinds import FAST_KINDS
from chaos.real_engines.run_report import (
    LoadRequest,
    Prompt,
    add_up,
    count,
    find_errors,
    render_progress,
    sum_up,
)
from chaos.transcript import Transcript

BY_NAME = {kind.name: kind for kind in FAST_KINDS}
CUT = FailedAttempt("engine-0", "broken", "reset", "continue_elsewhere", "replica_failed")


def whole(*, silence_s: float = 0.0) -> Transcript:
    return Transcript(
        "load-1", 200, "text", finish_reasons=["stop"], is_done=True, num_done=1,
        longest_silence_s=silence_s,
    )  # fmt: skip


def with_error(text: str) -> Transcript:
    return Transcript("load-1", 200, text, error={"message": "broken"})


def request(name: str, transcript: Transcript, *failed: FailedAttempt) -> LoadRequest:
    return LoadRequest(BY_NAME[name], Prompt("x"), 8, transcript, failed)


@pytest.mark.parametrize(
    ("name", "transcript", "is_error"),
    [
        ("chat", whole(), False),
        ("chat", with_error("te"), True),
        ("tools", with_error("te"), False),
        ("tools", with_error(""), True),
        ("tools", Transcript("load-1", 200, "te"), True),
        ("responses", Transcript("load-1", 503, error={"message": "no replica"}), True),
        ("chat", Transcript("load-1", read_error="reset"), True),
    ],
)
def test_a_stream_that_is_lost_or_cut_is_an_error(
    name: str, transcript: Transcript, is_error: bool
) -> None:
    assert bool(find_errors([request(name, transcript)])) == is_error


def test_streams_are_counted_by_kind_and_rounds_are_added_up() -> None:
    first = count(
        [
            request("chat", whole()),
            request("chat", whole(silence_s=1.5), CUT),
            request("tools", with_error("te"), CUT),
        ]
    )
    second = count([request("chat", whole(silence_s=0.5), CUT), request("chat", with_error(""))])
    total = add_up([asdict(first), asdict(second)])
    assert total["num_requests"] == 5
    assert total["kinds"]["chat"] == {
        "num_streams": 4,
        "num_completed": 3,
        "num_begun_anew": 0,
        "num_interrupted": 3,
        "num_interrupted_completed": 2,
        "num_error_events": 1,
        "num_beyond_limit": 0,
    }
    assert total["kinds"]["tools"]["num_interrupted"] == 1
    assert total["num_eligible_streams"] == 4
    assert total["num_eligible_streams_struck_completed"] == 2
    assert total["num_lost_before_first_token"] == 1
    assert total["longest_silence_of_struck_s"] == 1.5
    assert total["steps"] == {"broken, continue_elsewhere, replica_failed": 3}


RIGHT = {"fault": None, "is_tail_unjudged": False}
WRONG = {"fault": "it ends too early", "is_tail_unjudged": False}
UNJUDGED = {"fault": None, "is_tail_unjudged": True}


def a_round(*differences: dict[str, Any], num_struck: int = 20, **changes: Any) -> dict[str, Any]:
    """A round with one fault."""
    requests = [request("chat", whole(), *([CUT] if n < num_struck else [])) for n in range(64)]
    return {
        "duration_s": 40.0,
        "faults": [{"ready_after_s": 25.0}],
        "counts": asdict(count(requests)),
        "num_compared": 64,
        "num_sampled_judged": 8,
        "errors": [],
        "differences": list(differences),
        **changes,
    }


@pytest.mark.parametrize(
    ("rounds", "failures"),
    [
        ([a_round(), a_round(RIGHT)], []),
        ([], ["0 of 2 faults were injected", "no stream was struck by a fault"]),
        ([a_round()], ["1 of 2 faults were injected"]),
        ([a_round(), a_round(), a_round()], ["3 of 2 faults were injected"]),
        (
            [a_round(), a_round(faults=[{"ready_after_s": None}])],  # no replica came back
            ["1 of 2 faults were injected"],
        ),
        ([a_round(num_struck=0)] * 2, ["no stream was struck by a fault"]),
        ([a_round(), a_round(errors=["lost"])], ["1 errors"]),
        ([a_round(), a_round(WRONG)], ["1 wrong answers"]),
        ([a_round(UNJUDGED), a_round(UNJUDGED)], []),  # 5 % of 40
        (
            [a_round(UNJUDGED), a_round(UNJUDGED, UNJUDGED)],
            ["3 answers were not judged to their end, and 40 streams struck"],
        ),
    ],
)
def test_a_run_passes_if_all_faults_struck_and_all_answers_are_right(
    rounds: list[dict[str, Any]], failures: list[str]
) -> None:
    total = sum_up(rounds, num_ordered=2)
    assert total["failures"] == failures
    assert total["is_passed"] == (not failures)


def test_the_total_has_the_figures_of_all_rounds() -> None:
    total = sum_up([a_round(RIGHT, UNJUDGED), a_round(WRONG, num_struck=3)], num_ordered=2)
    assert total["num_faults_injected"] == 2
    assert total["num_streams_struck"] == 23
    assert (total["num_near_ties"], total["num_wrong_answers"]) == (2, 1)
    assert total["num_tails_unjudged"] == 1
    assert (total["num_requests"], total["num_compared"]) == (128, 128)


def test_progress_estimates_the_time_left() -> None:
    assert render_progress([a_round()] * 3, 12) == "3 of 12 faults, 40 s each, about 6 min left"
    assert render_progress([], 12) == "0 of 12 faults, 0 s each, about 0 min left"
