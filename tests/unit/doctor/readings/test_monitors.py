"""Alerts and panels as rule files and dashboards hold them."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from paceline.doctor.readings.monitors import (
    Monitor,
    NoMonitors,
    monitors_of_dashboard,
    monitors_of_rules,
)
from paceline.monitoring.alerts import AlertOptions, alerts, render_alert_rules
from paceline.monitoring.dashboards import DASHBOARDS
from paceline.monitoring.dashboards.model import render_dashboard
from paceline.monitoring.queries import MetricQueries

RULES = {
    "groups": [
        {"name": "g", "rules": [{"alert": "A", "expr": "a > 1"}, {"record": "r:a", "expr": "a"}]}
    ]
}


@pytest.mark.parametrize("document", [RULES, {"kind": "PrometheusRule", "spec": RULES}])
def test_rules_are_read_from_a_file_and_from_a_resource(document: Any) -> None:
    assert monitors_of_rules([None, document]) == (
        Monitor("alert", "A", ("a > 1",)),
        Monitor("recording rule", "r:a", ("a",)),
    )


@pytest.mark.parametrize("documents", [[], [None], [[]], [{"groups": 7}], ["text"]])
def test_other_documents_are_no_rules(documents: list[Any]) -> None:
    with pytest.raises(NoMonitors, match="no groups"):
        monitors_of_rules(documents)


def test_rules_without_a_name_or_an_expression_are_left_out() -> None:
    """Nested lists, as of YAML aliases, would be a text of any length."""
    rules = [{}, None, {"alert": "A"}, {"alert": "A", "expr": [["a"]]}, {"record": [], "expr": "a"}]
    document = {"groups": [{"rules": [*rules, {"alert": 500, "expr": "a"}]}]}
    assert monitors_of_rules([document]) == (Monitor("alert", "500", ("a",)),)


def test_panels_in_rows_variables_and_annotations_are_read() -> None:
    board = {
        "panels": [
            {"title": "P", "targets": [{"expr": "a"}, {"expr": "b"}, {"expr": ""}, {}]},
            {"type": "row", "title": "R", "panels": [{"title": "Q", "targets": [{"expr": "c"}]}]},
            {"title": "Logs", "datasource": {"type": "loki"}, "targets": [{"expr": "{x=\"y\"}"}]},
            {"title": "Text"},
        ],
        "templating": {
            "list": [
                {"name": "v", "query": {"query": "label_values(d{e=\"f\"}, g)"}},
                {"name": "w", "query": "query_result(h > 0)"},
                {"name": "x", "query": "label_values(i)"},
                {"name": "y", "query": "prometheus"},
            ]
        },
        "annotations": {"list": [{"name": "n", "expr": "j"}, {"name": "o"}]},
    }  # fmt: skip
    expected = (
        Monitor("panel", "P", ("a", "b")),
        Monitor("panel", "Q", ("c",)),
        Monitor("variable", "v", ("d{e=\"f\"}",)),
        Monitor("variable", "w", ("h > 0",)),
        Monitor("annotation", "n", ("j",)),
    )  # fmt: skip
    assert monitors_of_dashboard(board) == expected
    assert monitors_of_dashboard({"dashboard": board, "meta": {}}) == expected


@pytest.mark.parametrize("document", [{}, [], None, {"panels": {}}, {"dashboard": 7}])
def test_other_documents_are_no_dashboards(document: Any) -> None:
    with pytest.raises(NoMonitors, match="no panels"):
        monitors_of_dashboard(document)


def test_every_own_alert_and_panel_is_read() -> None:
    queries = MetricQueries()
    found = monitors_of_rules([yaml.safe_load(render_alert_rules(AlertOptions()))])
    assert [one.name for one in found] == [one.name for one in alerts(AlertOptions(), queries)]
    for make in DASHBOARDS.values():
        text = render_dashboard(make(queries))
        panels = [one for one in monitors_of_dashboard(json.loads(text)) if one.kind == "panel"]
        assert sum(len(one.expressions) for one in panels) == text.count('"expr":')
