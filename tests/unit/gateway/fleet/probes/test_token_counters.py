"""Acceptance and time per token between two readings of a replica's metrics."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from paceline.runtime.gateway.fleet import token_counters
from paceline.runtime.gateway.fleet.dialects import DIALECTS
from paceline.runtime.gateway.fleet.load import ReplicaLoad, parse_counters
from paceline.runtime.gateway.fleet.metrics_page import MetricsPage
from paceline.runtime.gateway.fleet.status import LoadReading
from paceline.runtime.gateway.fleet.token_counters import TokenCounters, TokenRates, rates_between
from paceline.runtime.gateway.signals import ReplicaSignals

RECORDED = Path(__file__).parents[3] / "mock_vllm/http/data/vllm-0.32.0-metrics.txt"
BEFORE = TokenCounters(100, 1.0, drafted_tokens=40, accepted_tokens=10)


def test_vllms_counters_are_read_from_its_page() -> None:
    """Recorded from vLLM 0.32.0 with a draft model."""
    counters = parse_counters(MetricsPage(RECORDED.read_text()), DIALECTS["vllm"].counters)
    assert counters.accepted_tokens == 91
    assert None not in (
        counters.generation_tokens, counters.inter_token_s, counters.drafted_tokens
    )  # fmt: skip
    assert parse_counters(MetricsPage(""), DIALECTS["vllm"].counters) == TokenCounters()
    assert (
        parse_counters(MetricsPage(RECORDED.read_text()), DIALECTS["openai"].counters)
        == TokenCounters()
    )


def test_seconds_and_tokens_of_other_servers_are_counted_at_the_same_moment() -> None:
    """SGLang adds to its output tokens when a request ends, and to its times with each token."""
    page = (
        'sglang:generation_tokens_total{is_streaming="true"} 5.0\n'
        'sglang:inter_token_latency_seconds_sum{model_name="m"} 0.5\n'
        'sglang:inter_token_latency_seconds_count{model_name="m"} 25.0\n'
    )
    assert parse_counters(MetricsPage(page), DIALECTS["sglang"].counters) == TokenCounters(
        25.0, 0.5
    )
    page = (
        "llamacpp:tokens_predicted_total 30\nllamacpp:tokens_predicted_seconds_total 0.6\n"
        "llamacpp:spec_decode_num_draft_tokens_total 8\n"
        "llamacpp:spec_decode_num_accepted_tokens_total 6\n"
    )
    assert parse_counters(MetricsPage(page), DIALECTS["llamacpp"].counters) == TokenCounters(
        30, 0.6, 8, 6
    )


@pytest.mark.parametrize(
    ("after", "rates"),
    [
        (TokenCounters(300, 5.0, 80, 30), TokenRates(0.5, 0.02)),
        (TokenCounters(300, 5.0), TokenRates(None, 0.02)),
        (TokenCounters(), TokenRates()),
        (TokenCounters(50, 2.0, 20, 5), TokenRates(0.25, 0.04)),  # it has restarted
    ],
)
def test_rates_are_those_of_the_time_between_two_readings(
    after: TokenCounters, rates: TokenRates
) -> None:
    found = rates_between(BEFORE, after)
    assert found.accepted_fraction == rates.accepted_fraction
    assert found.seconds_per_token == pytest.approx(rates.seconds_per_token)


def test_an_idle_replica_keeps_its_last_rates() -> None:
    last = TokenRates(0.5, 0.02)
    assert rates_between(BEFORE, BEFORE, last) == last


def test_the_signals_of_a_reading_hold_its_load_and_its_rates() -> None:
    first = LoadReading(ReplicaLoad(1), read_at_s=90.0, counters=BEFORE)
    newer = LoadReading(
        ReplicaLoad(3, 2, 0.5), read_at_s=100.0, counters=TokenCounters(300, 5.0, 80, 30)
    )
    reading = first.followed_by(newer)
    signals = ReplicaSignals(3, 2, 0.5, accepted_fraction=0.5, seconds_per_token=0.02)
    assert reading.signals(105.0, max_age_s=10.0) == signals
    assert reading.signals(111.0, max_age_s=10.0) is None
    assert LoadReading().followed_by(newer).rates == TokenRates()


def test_the_examples_run() -> None:
    assert doctest.testmod(token_counters).failed == 0
