"""Lost and cut requests of a run on real engines are listed, and every request is counted."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from chaos.attempt_log import FailedAttempt
from chaos.real_engines.request_kinds import FAST_KINDS
from chaos.real_engines.run_report import LoadRequest, Prompt, add_up, count, find_errors
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
    }
    assert total["kinds"]["tools"]["num_interrupted"] == 1
    assert total["num_eligible_streams"] == 4
    assert total["num_eligible_streams_struck_completed"] == 2
    assert total["num_lost_before_first_token"] == 1
    assert total["longest_silence_of_struck_s"] == 1.5
    assert total["steps"] == {"broken, continue_elsewhere, replica_failed": 3}
