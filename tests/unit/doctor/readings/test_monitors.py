"""Alerts and panels as rule files and dashboards hold them."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
import yaml

from paceline.operations.doctor.readings.monitors import (
    Monitor,
    monitors_of_dashboards,
    monitors_of_rules,
)
from paceline.operations.doctor.readings.resources import NoMonitors
from paceline.operations.monitoring.alerts import AlertOptions, alerts, render_alert_rules
from paceline.operations.monitoring.dashboards import DASHBOARDS
from paceline.operations.monitoring.dashboards.model import render_dashboard
from paceline.operations.monitoring.queries import MetricQueries

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


RULES_TEXT = yaml.safe_dump(RULES)
BOARD = {"panels": [{"title": "P", "targets": [{"expr": "a"}]}]}
BOARD_TEXT = json.dumps(BOARD, indent="\t")


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "List", "items": [{"kind": "Service"}, {"kind": "PrometheusRule", "spec": RULES}]},
        {"kind": "ConfigMap", "data": {"readme": "groups of rules", "a.yml": RULES_TEXT}},
        {"kind": "ConfigMap", "data": {"a.json": json.dumps(RULES)}},
        {"kind": "Secret", "data": {"a": base64.b64encode(RULES_TEXT.encode()).decode(), "b": "%"}},
        {"kind": "Secret", "stringData": {"a": f"# ours\n{RULES_TEXT}"}},
        {"additionalPrometheusRulesMap": {"ours": RULES}},  # values of a chart
        {"serverFiles": {"alerting_rules.yml": RULES}},
    ],
)
def test_rules_are_read_wherever_a_cluster_holds_them(document: Any) -> None:
    assert [one.name for one in monitors_of_rules([document])] == ["A", "r:a"]


def test_alerts_of_grafana_are_read_with_the_queries_of_prometheus_only() -> None:
    queries = [
        {"refId": "A", "model": {"expr": "a", "datasource": {"type": "prometheus"}}},
        {"refId": "B", "model": {"expr": "{b}", "datasource": {"type": "loki"}}},
        {"refId": "C", "model": {"type": "math", "expression": "$A > 1"}},
    ]
    document = {"apiVersion": 1, "groups": [{"rules": [{"title": "T", "data": queries}]}]}
    assert monitors_of_rules([document]) == (Monitor("alert", "T", ("a",)),)


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "ConfigMap", "data": {"a.json": BOARD_TEXT}},
        {"kind": "ConfigMapList", "items": [{"data": {"a.json": BOARD_TEXT}}]},
        {"kind": "GrafanaDashboard", "spec": {"json": BOARD_TEXT}},
        {"kind": "Dashboard", "apiVersion": "dashboard.grafana.app/v1beta1", "spec": BOARD},
        {"dashboards": {"default": {"ours": {"json": BOARD_TEXT}}}},  # values of a chart
        {"rows": [BOARD]},
    ],
)
def test_dashboards_are_read_wherever_a_cluster_holds_them(document: Any) -> None:
    assert monitors_of_dashboards([document]) == (Monitor("panel", "P", ("a",)),)


def test_a_dashboard_of_the_second_version_is_read() -> None:
    def query(kind: str, expression: str) -> Any:
        inner = {"kind": "DataQuery", "group": kind, "spec": {"expr": expression}}
        return {"kind": "PanelQuery", "spec": {"query": inner}}

    queries = [query("prometheus", "a"), query("loki", "{b}")]
    data = {"kind": "QueryGroup", "spec": {"queries": queries}}
    panel = {"kind": "Panel", "spec": {"title": "P", "data": data}}
    document = {"kind": "Dashboard", "spec": {"elements": {"panel-1": panel}}}
    assert monitors_of_dashboards([document]) == (Monitor("panel", "P", ("a",)),)


def test_a_text_inside_that_cannot_be_read_is_named() -> None:
    with pytest.raises(NoMonitors, match=r"the text of 'a\.yml' cannot be read"):
        monitors_of_rules([{"data": {"a.yml": "groups: ["}}])
    with pytest.raises(NoMonitors, match=r"the text of 'b\.json' cannot be read"):
        monitors_of_dashboards([{"data": {"b.json": '{"panels": ['}}])


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
    assert monitors_of_dashboards([board]) == expected
    assert monitors_of_dashboards([{"dashboard": board, "meta": {}}]) == expected


@pytest.mark.parametrize("document", [{}, [], None, {"panels": {}}, {"dashboard": 7}])
def test_other_documents_are_no_dashboards(document: Any) -> None:
    with pytest.raises(NoMonitors, match="no panels"):
        monitors_of_dashboards([document])


def test_every_own_alert_and_panel_is_read() -> None:
    queries = MetricQueries()
    found = monitors_of_rules([yaml.safe_load(render_alert_rules(AlertOptions()))])
    assert [one.name for one in found] == [one.name for one in alerts(AlertOptions(), queries)]
    for make in DASHBOARDS.values():
        text = render_dashboard(make(queries))
        panels = [one for one in monitors_of_dashboards([json.loads(text)]) if one.kind == "panel"]
        assert sum(len(one.expressions) for one in panels) == text.count('"expr":')
