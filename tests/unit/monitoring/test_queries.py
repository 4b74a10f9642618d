"""Expressions are refused unless the gateway has the metric, its kind, the label and the value."""

from __future__ import annotations

import doctest

import pytest

from paceline.operations.monitoring import queries as module
from paceline.operations.monitoring.queries import MetricQueries, UnknownMetric

QUERIES = MetricQueries()


def test_the_examples_of_the_docstrings_are_right() -> None:
    assert doctest.testmod(module).failed == 0


def test_a_series_can_be_left_out() -> None:
    without = {"outcome": ("completed", "refused")}
    assert QUERIES.increase("paceline_requests_total", "1h", without=without) == (
        'increase(paceline_requests_total{outcome!~"completed|refused"}[1h])'
    )


def test_a_quantile_can_be_split_by_a_label() -> None:
    assert QUERIES.quantile(0.99, "paceline_queue_seconds", "5m", by="job") == (
        "histogram_quantile(0.99, sum by (job, le) (rate(paceline_queue_seconds_bucket[5m])))"
    )


def test_what_the_gateway_does_not_have_is_refused() -> None:
    with pytest.raises(UnknownMetric, match="paceline_requests is no metric"):
        QUERIES.rate("paceline_requests", "5m")
    with pytest.raises(UnknownMetric, match="is a gauge, not a counter"):
        QUERIES.rate("paceline_replica_state", "5m")
    with pytest.raises(UnknownMetric, match="is a gauge, not a histogram"):
        QUERIES.quantile(0.5, "paceline_replica_state", "5m")
    with pytest.raises(UnknownMetric, match="has no label tenant"):
        QUERIES.gauge("paceline_replica_state", {"tenant": "a"})
    with pytest.raises(UnknownMetric, match="has no outcome fine"):
        QUERIES.rate("paceline_requests_total", "5m", {"outcome": ("completed", "fine")})
