"""The figures of the gateway benchmarks, from exchanges with known times."""

from __future__ import annotations

from array import array

from benchmarks.gateway.records import (
    Promise,
    added,
    arrivals_summary,
    gaps_ms,
    percentiles,
    streams_summary,
)
from benchmarks.gateway.sse_client import Exchange


def stream(*arrivals_s: float, sent_s: float = 0.0, **more: object) -> Exchange:
    exchange = Exchange(sent_s, on_end=lambda _: None, due_s=sent_s)
    exchange.status, exchange.is_complete = 200, True
    exchange.arrivals_s = array("d", arrivals_s)
    exchange.ended_s = arrivals_s[-1] if arrivals_s else sent_s
    for name, value in more.items():
        setattr(exchange, name, value)
    return exchange


def test_gaps_leave_out_the_first_and_the_last() -> None:
    assert [round(gap) for gap in gaps_ms(stream(1.0, 1.1, 1.3, 1.6, 2.0), 0.0)] == [200, 300]
    assert gaps_ms(stream(1.0, 1.1, 1.3), 0.0) == []


def test_gaps_before_the_measurement_do_not_count() -> None:
    assert [round(gap) for gap in gaps_ms(stream(1.0, 1.1, 1.3, 1.6, 2.0), 1.5)] == [300]


def test_only_requests_sent_during_the_measurement_count_for_ttft() -> None:
    summary = streams_summary([stream(1.2, sent_s=0.9), stream(1.25, sent_s=1.2)], from_s=1.0)
    assert summary["ttfts_ms"] == [50.0]
    assert summary["num_begun"] == 1


def test_dropped_streams_have_not_failed_and_broken_ones_have() -> None:
    cut = stream(1.1, sent_s=1.0, is_complete=False, is_cut=True)
    broken = stream(1.1, sent_s=1.0, is_complete=False)
    refused = stream(sent_s=1.0, status=503, is_complete=True)
    summary = streams_summary([cut, broken, refused], from_s=0.0)
    assert (summary["num_failed"], summary["num_with_first_token"]) == (1, 2)


def test_added_latency_compares_runs_of_the_same_repeat() -> None:
    runs = [
        {"repeat": repeat, "arm": arm, "ttft_ms": {"p99": value}}
        for repeat, arm, value in (
            (0, "direct", 2.0), (0, "gateway", 3.0),
            (1, "gateway", 9.0), (1, "direct", 7.0),
            (2, "direct", 1.0), (2, "gateway", 5.0),
        )
    ]  # fmt: skip
    assert added(runs, "gateway", "direct", "ttft_ms", "p99") == {
        "median": 2.0,
        "lowest": 1.0,
        "highest": 4.0,
    }


def test_an_objective_counts_from_the_time_the_request_was_due() -> None:
    promise = Promise(ttft_s=1.0, total_s=2.0)
    assert promise.is_kept(stream(0.9, 1.9))
    assert not promise.is_kept(stream(0.9, 1.9, sent_s=0.5, due_s=-0.2))
    assert not promise.is_kept(stream(0.9, 2.1))
    assert not promise.is_kept(stream(0.9, 1.9, is_complete=False))


def test_the_outcomes_of_all_arrivals_add_up() -> None:
    at_once = stream(sent_s=1.0, status=503, ended_s=1.004, body=b'{"error": "overloaded"}')
    waited = stream(sent_s=1.0, status=503, ended_s=1.7, body=b"this request has waited too long")
    lost = stream(sent_s=1.0, status=0, is_complete=False)
    late = stream(2.5, 2.6, sent_s=1.0)
    good = stream(1.5, 1.6, sent_s=1.0)
    summary = arrivals_summary(
        [at_once, waited, lost, late, good], Promise(ttft_s=1.0, total_s=2.0), duration_s=2.0
    )
    assert summary["num_refused_at_once"] == summary["num_refused_after_waiting"] == 1
    assert (summary["num_whole"], summary["num_good"], summary["num_other"]) == (2, 1, 1)
    assert summary["goodput_per_s"] == 0.5
    assert summary["refusal_ms"]["p50"] == 4.0


def test_no_values_have_no_percentiles() -> None:
    assert percentiles([]) == {}
    assert percentiles([1.0, 3.0], (50,)) == {"p50": 2.0}
