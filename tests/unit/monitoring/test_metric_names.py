"""Metrics in PromQL expressions, and which of them are missed."""

from __future__ import annotations

import doctest
from types import ModuleType

import pytest

from paceline.operations.monitoring import metric_names as names_module
from paceline.operations.monitoring import vllm_names
from paceline.operations.monitoring.alerts import AlertOptions, alerts
from paceline.operations.monitoring.dashboards import DASHBOARDS
from paceline.operations.monitoring.metric_names import MissingMetric, metric_names, missing_metrics
from paceline.operations.monitoring.queries import MetricQueries


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("up", ["up"]),
        ("1 - a / b", ["a", "b"]),
        ("sum by (job, instance) (rate(a_total[5m] offset 1h))", ["a_total"]),
        ("sum(a) without (b) > bool 0.5e3", ["a"]),
        ("topk(3, a) * on (x) group_left (y) b", ["a", "b"]),
        ("histogram_quantile(.99, sum by (le) (rate(a_bucket{b=~\"c}d\"}[$__rate_interval])))",
         ["a_bucket"]),
        ("max_over_time(a[1h30m:5m]) and on () b unless c", ["a", "b", "c"]),
        ("label_replace(a, \"b\", \"$1\", \"c\", \"(.*)\") # d", ["a"]),
        ("{__name__=\"a\", b=\"c\"} + {\"d.e\", f=\"g\"}", ["a", "d.e"]),
        ("{__name__=~\"a.*\"}", []),
        ("vllm:a{b=\"c\"} @ end() or -inf", ["vllm:a"]),
        ("vllm:${metric}_total + $metric + a", ["a"]),
        ("count_values(\"version\", build_info) > 0x1F", ["build_info"]),
        ("rate(vllm:[[metric]]_total[5m]) + [[metric]] + rate(a[[[interval]]])", ["a"]),
        ("[[prefix:raw]]_total / a{[[filters]]}", ["a"]),
        ("{\"d.e\"=\"f\", \"a\"} + {\"__name__\"=\"b\"}", ["a", "b"]),
        ("a'", ["a"]),
        ("((", []),
    ],
)  # fmt: skip
def test_the_metrics_of_an_expression(expression: str, names: list[str]) -> None:
    assert metric_names(expression) == names


@pytest.mark.parametrize(
    ("expression", "missing"),
    [
        ("old", ["old"]),
        ("rate(old[5m]) / new", ["old"]),
        ("old or new", []),
        ("sum(old or new)", []),
        ("sum(old) or vector(0)", ["old"]),
        ("old or absent(new)", ["old"]),
        ("old or elsewhere", ["old"]),
        ("(old or new) / old", ["old"]),
        ("clamp(old or new, 0, old)", ["old"]),
        ("old and new", ["old"]),
        ("old or older", ["old", "older"]),
        ("absent(old or new)", []),
        ("absent(old or older)", ["old", "older"]),
        ("absent(new) or old", ["old"]),
        ("elsewhere", []),
    ],
)
def test_what_is_missing(expression: str, missing: list[str]) -> None:
    known = {"new": True, "old": False, "older": False}
    assert [one.name for one in missing_metrics(expression, known.get)] == missing


@pytest.mark.parametrize(
    "expression", ["absent(old)", "absent_over_time(old[5m])", "absent((old))"]
)
def test_a_metric_whose_absence_is_waited_for_is_marked(expression: str) -> None:
    assert missing_metrics(expression, {"old": False}.get) == [MissingMetric("old", True)]
    assert missing_metrics(expression, {"old": True}.get) == []


@pytest.mark.parametrize("num", [1_000, 100_000])
def test_an_expression_that_nests_too_deep_is_not_judged(num: int) -> None:
    assert metric_names("(" * num + "a" + ")" * num) == []
    assert metric_names("(" * 100 + "a" + ")" * 100) == ["a"]
    assert metric_names("(a) + " * num + "b") == ["a", "b"]


def test_the_own_alerts_and_panels_name_only_metrics_of_the_gateway() -> None:
    """The builder of their expressions knows all metrics, and this reader finds the same ones."""
    queries = MetricQueries()
    expressions = [one.expr for one in alerts(AlertOptions(), queries)]
    names = {name for expression in expressions for name in metric_names(expression)}
    assert len(names) > 10
    assert {name for name in names if not name.startswith("paceline_")} == {"up"}
    assert len(DASHBOARDS) == 2


@pytest.mark.parametrize("module", [names_module, vllm_names])
def test_the_examples_are_true(module: ModuleType) -> None:
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0
