"""Warnings: which runs are not valid, and which figures are uncertain."""

from __future__ import annotations

from array import array

import pytest

from paceline.foundation.load.loads import ClosedLoop, Load, OpenLoop
from paceline.foundation.load.loop_lag import LoopLag, Stall
from paceline.foundation.load.records import RequestRecord
from paceline.foundation.results.bootstrap import BootstrapInterval
from paceline.foundation.results.slo import Slo
from paceline.workbench.bench.results.client_health import ClientHealth, assess_client
from paceline.workbench.bench.results.summary import summarize
from paceline.workbench.bench.results.validity import (
    RunWarning,
    judge_client,
    judge_figures,
    judge_load,
)
from unit.bench.results.records import record, steady


def health(
    lags_s: tuple[float, ...] = (0.001,),
    stalls: tuple[Stall, ...] = (),
    cpu_s: float = 1.0,
    wall_s: float = 100.0,
) -> ClientHealth:
    lag = LoopLag(0.0, array("d", lags_s), list(stalls), wall_s=wall_s, cpu_s=cpu_s)
    return assess_client([lag], [[]])


def ids(warnings: list[RunWarning]) -> list[tuple[str, bool]]:
    return [(warning.id, warning.invalidates) for warning in warnings]


def test_a_good_run_has_no_warnings() -> None:
    summary = summarize(steady(600))
    assert list(judge_client(summary, health(), 25.0)) == []
    assert list(judge_figures(summary, {})) == []


def test_a_late_load_generator_makes_the_run_invalid() -> None:
    """Ten requests due at 1 to 10 s and sent at 10 s: coordinated omission."""
    stalled = [record(i, float(i), 10.0, (10.1,), 10.1, output_tokens=1) for i in range(1, 10)]
    (warning,) = judge_client(summarize(stalled), health(), 25.0)
    assert ids([warning]) == [("dispatch_delay", True)]
    assert warning.message.startswith("not valid: the load generator sent its requests 89")
    assert "--max-dispatch-delay-ms" in warning.message


@pytest.mark.parametrize(
    ("client", "expected"),
    [
        (health(cpu_s=89.0), []),
        (health(cpu_s=91.0), [("client_bottleneck", True)]),
        (health(lags_s=(0.06,)), [("client_bottleneck", True)]),
        (health(stalls=(Stall(1.0, 0.9),)), [("client_stalls", False)]),
        (health(stalls=(Stall(1.0, 0.6), Stall(5.0, 0.6))), [("client_stalls", True)]),
    ],
)
def test_a_load_generator_that_is_busy_or_stalls_is_reported(
    client: ClientHealth, expected: list[tuple[str, bool]]
) -> None:
    """Stalls invalidate a run of 100 s from 1 s in all."""
    assert ids(list(judge_client(summarize(steady(600)), client, 25.0))) == expected


def test_stalls_are_counted_in_the_message() -> None:
    client = health(stalls=(Stall(1.0, 1.0), Stall(5.0, 0.5)))
    (warning,) = judge_client(summarize([]), client, 25.0)
    assert "stalled 2 times, 1.50 s in all, 1.00 s at the longest" in warning.message


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        (steady(499), ["few_samples"]),
        ([*steady(600), record(700, error="x")], ["errors"]),
        ([*steady(600), record(700, output_tokens=None)], ["no_usage"]),
        ([*steady(600), record(700, chunk_times_s=())], ["empty_answers"]),
    ],
)
def test_figures_that_are_incomplete_are_named(
    records: list[RequestRecord], expected: list[str]
) -> None:
    warnings = list(judge_figures(summarize(records), {}))
    assert [warning.id for warning in warnings] == expected
    assert not any(warning.invalidates for warning in warnings)


def test_too_few_samples_name_the_percentiles_they_make_uncertain() -> None:
    (warning,) = judge_figures(summarize(steady(49)), {})
    assert warning.message == (
        "p90 and p99 come from 49 requests, which is too few: p99 needs 500, p90 50"
    )
    (warning,) = judge_figures(summarize(steady(50)), {})
    assert warning.message == "p99 comes from 50 requests, which is too few: p99 needs 500"


def test_a_wide_interval_is_noise() -> None:
    """6 tokens/s +/- 0.33 is 5.5 %."""
    summary = summarize(steady(600))
    wide = {"output_tokens_per_s": BootstrapInterval(5.67, 6.33, "blocks", 20)}
    (warning,) = judge_figures(summary, wide)
    assert warning.id == "noise"
    assert "over 20 blocks" in warning.message
    narrow = {"output_tokens_per_s": BootstrapInterval(5.9, 6.1, "blocks", 20)}
    assert list(judge_figures(summary, narrow)) == []


def growing() -> list[RequestRecord]:
    """One request per second; each takes a second longer than the one before."""
    return [
        record(i, float(i), chunk_times_s=(i * 2.0 + 1,), finished_s=i * 2.0 + 1) for i in range(60)
    ]


@pytest.mark.parametrize(
    ("load", "expected"),
    [
        (OpenLoop(1.0), ["saturation"]),
        (OpenLoop(1.0, final_rate_per_s=2.0), []),
        (ClosedLoop(4), []),
    ],
)
def test_a_growing_queue_is_reported_for_stationary_open_loops(
    load: Load, expected: list[str]
) -> None:
    assert [w.id for w in judge_load([("measuring", load)], growing())] == expected


def test_a_growing_queue_names_its_phase() -> None:
    phases: list[tuple[str, Load]] = [("calm", OpenLoop(1.0)), ("rush", OpenLoop(1.0))]
    rush = [
        record(r.index, r.scheduled_s, None, r.chunk_times_s, r.finished_s, phase=1)
        for r in growing()
    ]
    (warning,) = judge_load(phases, [*steady(60), *rush])
    assert "in phase 'rush'" in warning.message


def test_goodput_that_cannot_be_known_is_named() -> None:
    records = [*steady(600), record(700, output_tokens=None)]
    (warning,) = judge_figures(summarize(records, Slo(tpot_ms=50)), {})
    assert warning.id == "no_usage"
    assert "Goodput is not reported" in warning.message
    (warning,) = judge_figures(summarize(records, Slo(ttft_ms=50)), {})
    assert "Goodput" not in warning.message
