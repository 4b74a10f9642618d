"""Rates and percentiles of the last minute, from the gateway's own metrics."""

from __future__ import annotations

import math

import pytest

from paceline.runtime.gateway.live_view.percentiles import percentiles_of
from paceline.runtime.gateway.live_view.readings import (
    TrafficReading,
    TrafficWindow,
    read_traffic,
    traffic_between,
)
from paceline.runtime.gateway.live_view.values import Percentiles
from paceline.runtime.gateway.metrics.metrics import GatewayMetrics
from paceline.runtime.gateway.metrics.samples import add_samples
from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.usage import Usage

TTFT = "paceline_time_to_first_token_seconds"


def test_a_reading_has_the_counts_of_all_processes() -> None:
    one, other = GatewayMetrics(), GatewayMetrics()
    for metrics in (one, other):
        metrics.request_ended(Outcome.COMPLETED)
        metrics.request_ended(Outcome.BROKEN)
        metrics.tokens_used(Usage(prompt_tokens=3, output_tokens=10))
        metrics.first_token_after(0.04)
        metrics.of_model("tiny").queue_changed(2)
    reading = read_traffic(add_samples([one.samples(), other.samples()]), 7.0)
    assert (reading.num_ended, reading.num_failed, reading.output_tokens) == (4, 2, 20)
    assert (reading.num_waiting, reading.read_at_s) == (4, 7.0)
    assert dict(reading.buckets[TTFT])[0.02] == 0
    assert dict(reading.buckets[TTFT])[0.05] == 2
    assert reading.buckets[TTFT][-1] == (math.inf, 2)


@pytest.mark.parametrize(
    "outcome",
    [Outcome.COMPLETED, Outcome.REFUSED, Outcome.ENGINE_REFUSED, Outcome.CLIENT_GONE],
)
def test_what_a_client_causes_is_no_failure(outcome: Outcome) -> None:
    metrics = GatewayMetrics()
    metrics.request_ended(outcome)
    reading = read_traffic(metrics.samples(), 0.0)
    assert (reading.num_ended, reading.num_failed) == (1, 0)


def test_rates_are_per_second_between_two_readings() -> None:
    before = TrafficReading(10.0, num_ended=100, num_failed=1, output_tokens=1000)
    after = TrafficReading(20.0, num_ended=150, num_failed=6, output_tokens=3000, num_waiting=3)
    traffic = traffic_between(before, after, 8)
    assert (traffic.requests_per_s, traffic.failed_per_s) == (5.0, 0.5)
    assert traffic.output_tokens_per_s == 200.0
    assert (traffic.num_in_flight, traffic.num_waiting) == (8, 3)


def test_the_first_reading_has_no_rates() -> None:
    traffic = TrafficWindow().add(TrafficReading(10.0, num_ended=100), 0)
    assert (traffic.requests_per_s, traffic.ttft) == (None, None)


def test_counts_that_a_lost_worker_took_with_it_make_no_negative_rate() -> None:
    before, after = TrafficReading(0.0, num_ended=100), TrafficReading(1.0, num_ended=40)
    assert traffic_between(before, after, 0).requests_per_s == 0.0


def test_percentiles_are_those_of_the_time_between_two_readings() -> None:
    """100 new values, half of them below 0.1 s and half from 0.1 to 0.2 s; the old ones were
    slower."""
    before = TrafficReading(0.0, buckets={TTFT: ((0.1, 0), (0.2, 0), (math.inf, 900))})
    after = TrafficReading(1.0, buckets={TTFT: ((0.1, 50), (0.2, 100), (math.inf, 1000))})
    assert traffic_between(before, after, 0).ttft == Percentiles(100.0, 180.0, 198.0)


def test_a_value_above_all_bounds_counts_as_the_highest_bound() -> None:
    assert percentiles_of(((0.1, 0), (0.2, 0), (math.inf, 4))) == Percentiles(200.0, 200.0, 200.0)


def test_the_window_forgets_what_is_older_than_a_minute() -> None:
    window = TrafficWindow()
    for second in range(0, 120, 10):
        num_ended = 1000 if second >= 30 else 0  # a burst at 30 s
        traffic = window.add(TrafficReading(float(second), num_ended=num_ended), 0)
        if second == 80:
            assert traffic.requests_per_s == pytest.approx(1000 / 60)
    assert traffic.requests_per_s == 0.0
