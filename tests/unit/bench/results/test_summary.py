"""The figures of a window, from records with round times."""

import pytest

from paceline.foundation.load.records import RequestOutcome, RequestRecord
from paceline.foundation.results.distribution import describe_ms
from paceline.foundation.results.slo import Slo
from paceline.workbench.bench.results.summary import summarize
from unit.bench.results.records import record


def test_latencies_of_a_record_count_from_its_scheduled_time() -> None:
    """Due at 1, sent at 3, content at 4 and 6, end at 7, 5 tokens: TPOT = (6 - 3) / 4."""
    late = record(
        scheduled_s=1.0, sent_s=3.0, chunk_times_s=(4.0, 6.0), finished_s=7.0, output_tokens=5
    )
    assert late.dispatch_delay_s == 2.0
    assert late.ttft_s == 3.0
    assert late.e2e_s == 6.0
    assert late.tpot_s == 0.75
    assert late.chunk_gaps_s == (2.0,)


def test_one_token_or_no_usage_has_no_time_per_output_token() -> None:
    assert record(output_tokens=1).tpot_s is None
    assert record(output_tokens=None).tpot_s is None
    assert record(chunk_times_s=(), output_tokens=3).tpot_s is None


def test_contradictory_records_are_refused() -> None:
    with pytest.raises(ValueError, match="must not decrease"):
        record(chunk_times_s=(2.0, 1.0), finished_s=3.0)
    with pytest.raises(ValueError, match="before it was sent"):
        record(sent_s=2.0, chunk_times_s=(), finished_s=1.0)
    with pytest.raises(ValueError, match="needs a message"):
        RequestRecord(0, "json", 0.0, 0.0, (), 1.0, RequestOutcome.TIMEOUT)


def test_rates_divide_by_first_schedule_to_last_finish() -> None:
    """Window 1.0 to 5.0 s; 12 tokens of two answers; the failure adds time but no tokens."""
    summary = summarize(
        [
            record(0, scheduled_s=1.0, chunk_times_s=(2.0,), finished_s=3.0, output_tokens=5),
            record(1, scheduled_s=2.0, chunk_times_s=(3.0,), finished_s=4.0, output_tokens=7),
            record(2, scheduled_s=3.0, chunk_times_s=(), finished_s=5.0, error="status 500: no"),
        ],
    )
    assert summary.window_s == 4.0
    assert summary.output_tokens == 12
    assert summary.output_tokens_per_s == 3.0
    assert summary.requests_per_s == 0.5
    assert summary.output_tokens_per_chunk == 6.0
    assert summary.prompt_tokens == 20
    assert (summary.num_requests, summary.num_errors) == (3, 1)
    assert summary.errors_by_outcome == {"http_error": 1}
    assert summary.error_samples == ("status 500: no",)


def test_percentiles_interpolate_linearly() -> None:
    """Of 1..5 s: rank 0.9 * 4 = 3.6 lies 0.6 of the way from 4 to 5; p99 at rank 3.96."""
    spread = describe_ms([5.0, 1.0, 2.0, 4.0, 3.0], num_requests=5)
    assert spread.p50 == pytest.approx(3000)
    assert spread.p90 == pytest.approx(4600)
    assert spread.p99 == pytest.approx(4960)
    assert spread.mean == pytest.approx(3000)
    assert spread.max == pytest.approx(5000)


def test_an_interval_is_given_where_there_are_enough_samples() -> None:
    """n = 100, median: ranks 50 -/+ 1.96 * 5 = 40.2 and 59.8, rounded up 41 and 60."""
    spread = describe_ms([i / 1000 for i in range(1, 101)], num_requests=100)
    assert spread.p50_ci95 == pytest.approx((41.0, 60.0))
    assert spread.p90_ci95 == pytest.approx((85.0, 96.0))  # 90 -/+ 1.96 * 3: 84.12, 95.88
    assert spread.p99_ci95 is None  # 99 + 1.96 * 0.995 lies beyond the 100th
    assert describe_ms([1.0] * 100, 100, independent=False).p50_ci95 is None


def test_p99_below_500_requests_carries_a_note() -> None:
    assert describe_ms([1.0] * 499, 499).note == (
        "p99 comes from 499 requests; with fewer than 500 it is little more than the slowest "
        "request"
    )
    assert describe_ms([1.0] * 500, 500).note is None
    assert describe_ms([1.0] * 2000, num_requests=10, independent=False).note is not None


def test_no_samples_give_no_figures() -> None:
    summary = summarize([])
    assert summary.ttft_ms.p50 is None
    assert summary.output_tokens_per_s is None
    assert summary.requests_per_s is None
    assert summary.by_task == {}


def test_a_stalled_server_shows_in_latency_however_late_the_requests_went_out() -> None:
    """Coordinated omission: one stall of 10 s delays nine requests that were due meanwhile.

    Each answers 0.1 s after it was sent at t = 10; from its schedule that is 10.1 - i seconds.
    Measured from the send they would all have looked like 0.1 s.
    """
    stalled = [record(i, float(i), 10.0, (10.1,), 10.1, output_tokens=1) for i in range(1, 10)]
    summary = summarize(stalled)
    assert summary.ttft_ms.p50 == pytest.approx(5100)
    assert summary.ttft_ms.max == pytest.approx(9100)
    assert summary.dispatch_delay_ms.p50 == pytest.approx(5000)


def test_answers_without_usage_leave_the_token_rate_unknown() -> None:
    summary = summarize([record(0), record(1, output_tokens=None)])
    assert summary.output_tokens_per_s is None
    assert summary.output_tokens_per_chunk is None
    assert summary.tpot_ms.num_samples == 1
    assert summary.num_without_usage == 1


def test_an_empty_answer_is_noted_and_has_no_time_to_first_token() -> None:
    summary = summarize([record(0), record(1, chunk_times_s=())])
    assert summary.ttft_ms.num_samples == 1
    assert summary.num_errors == 0
    assert summary.num_empty == 1


def test_tasks_are_summarized_separately() -> None:
    summary = summarize(
        [record(0), record(1, task="code", chunk_times_s=(1.0,)), record(2, error="x")]
    )
    assert summary.by_task["code"].ttft_ms.p50 == pytest.approx(1000)
    assert summary.by_task["json"].num_requests == 2
    assert summary.by_task["json"].num_errors == 1
    assert summary.by_task["json"].output_tokens == 5
    assert summary.by_task["code"].output_tokens_per_chunk == 5.0


def test_rates_of_repeats_divide_by_the_sum_of_their_windows() -> None:
    """Windows of 2 and 3 s on clocks of their own, 5 tokens each."""
    summary = summarize(
        [record(0, finished_s=2.0), record(1, finished_s=3.0, repeat=1)], Slo(ttft_ms=600)
    )
    assert summary.window_s == 5.0
    assert summary.output_tokens_per_s == 2.0
    assert summary.requests_per_s == 0.4
    assert summary.goodput is not None
    assert summary.goodput.requests_per_s == 0.4


def test_a_wait_for_a_slot_is_latency_but_no_dispatch_delay() -> None:
    """Due at 0, a slot free at 2, sent at 2.25, content at 3."""
    waited = record(sent_s=2.25, chunk_times_s=(3.0,), finished_s=3.0, slot_wait_s=2.0)
    summary = summarize([waited])
    assert summary.ttft_ms.p50 == 3000
    assert summary.slot_wait_ms.p50 == 2000
    assert summary.dispatch_delay_ms.p50 == 250
