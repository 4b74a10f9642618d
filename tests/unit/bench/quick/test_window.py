"""A window counts what is known: first tokens, misses, and nothing that was cut off too early."""

from __future__ import annotations

import math

import pytest

from paceline.foundation.load.records import RequestOutcome, RequestRecord
from paceline.workbench.bench.quick.window import longest_window_s, summarize_window


def record(
    scheduled_s: float, first_s: float | None, end_s: float, outcome: RequestOutcome
) -> RequestRecord:
    is_ok = outcome is RequestOutcome.OK
    return RequestRecord(
        index=0,
        task="t",
        scheduled_s=scheduled_s,
        sent_s=scheduled_s,
        chunk_times_s=() if first_s is None else (first_s,),
        finished_s=end_s,
        outcome=outcome,
        output_tokens=10 if is_ok else None,
        error=None if is_ok else "cut",
    )


OK, CUT, FAILED = RequestOutcome.OK, RequestOutcome.TIMEOUT, RequestOutcome.HTTP_ERROR


def test_what_is_known_of_each_request() -> None:
    """The window ends at 4 s and the limit is 1 s."""
    records = [
        record(0.0, 0.25, 1.0, OK),  # 0.25 s
        record(3.5, 3.6, 3.9, OK),  # fast, but of the others that began this late nothing is known
        record(2.0, 2.5, 4.0, CUT),  # its first token came after 0.5 s
        record(2.0, None, 4.0, CUT),  # waited 2 s: a miss
        record(3.5, None, 4.0, CUT),  # waited 0.5 s: unknown
        record(1.0, None, 1.1, FAILED),  # an error: a miss
    ]
    window = summarize_window(2, records, ramp_s=0.0, end_s=4.0, limit_s=1.0)
    assert sorted(window.ttfts_s) == [0.25, 0.5, math.inf, math.inf]
    assert window.num_errors == 1
    assert window.output_tokens_per_s == 20 / 4
    assert window.answer_s == pytest.approx(0.7)


@pytest.mark.parametrize(("num_late", "judged"), [(6, 6), (4, 8)])
def test_requests_of_the_ramp_count_only_if_there_are_few_others(
    num_late: int, judged: int
) -> None:
    """Four requests begin in the ramp of 1 s; at least five later ones replace them."""
    early = [record(0.1 * i, 0.1 * i + 0.9, 2.0, OK) for i in range(4)]
    late = [record(1.5, 1.6, 3.0, OK)] * num_late
    window = summarize_window(4, [*early, *late], ramp_s=1.0, end_s=4.0, limit_s=1.0)
    assert len(window.ttfts_s) == judged


def test_a_window_grows_with_the_limit() -> None:
    assert longest_window_s(1.0) == 6.0
    assert longest_window_s(10.0) == 15.0
