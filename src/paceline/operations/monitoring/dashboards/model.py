"""A dashboard as values, and its form in Grafana's JSON model.

Written for Grafana 11.6; later releases migrate it when they load it. A test decodes every field
with the types that Grafana publishes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

WINDOW = "$__rate_interval"
"""Grafana's window for rates: at least four scrapes, however far the dashboard is zoomed in."""
REPLICA = "$replica"
"""The replicas chosen at the top of the dashboard, as a regular expression."""

_PLUGIN_VERSION = "11.6.0"
_SCHEMA_VERSION = 41
_COLUMNS = 24
_HEIGHT = 8
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}

Unit = Literal["s", "short", "percentunit", "reqps", "bytes"]
"""Ids of Grafana's units; `percentunit` shows a fraction as per cent."""


@dataclass(frozen=True, slots=True)
class Query:
    """One query of a panel."""

    expr: str
    legend: str
    """A template of Grafana, such as {{replica}}."""


def by_replica(aggregation: Literal["max", "sum"], expr: str, what: str = "") -> Query:
    """One line for each replica, with `what` after its name.

    `max` for what every gateway reads of the replica, `sum` for what each gateway has of its own.

    >>> by_replica("max", "paceline_replica_state", "state")
    Query(expr='max by (replica) (paceline_replica_state)', legend='{{replica}} state')
    """
    return Query(f"{aggregation} by (replica) ({expr})", f"{{{{replica}}}} {what}".rstrip())


@dataclass(frozen=True, slots=True)
class Lines:
    """Values over time as lines."""

    title: str
    description: str
    queries: Sequence[Query]
    unit: Unit = "short"
    limit: float | None = None
    """Drawn as a line: the threshold of an alert."""


@dataclass(frozen=True, slots=True)
class States:
    """Values over time as coloured bars, one for each series."""

    title: str
    description: str
    queries: Sequence[Query]
    states: Mapping[float, tuple[str, str]]
    """By value: text and colour."""


@dataclass(frozen=True, slots=True)
class Scatter:
    """One point for each moment: the first query on the x axis, the others on the y axis."""

    title: str
    description: str
    x: Query
    ys: Sequence[Query]
    unit: Unit

    @property
    def queries(self) -> Sequence[Query]:
        return (self.x, *self.ys)


Panel = Lines | States | Scatter


@dataclass(frozen=True, slots=True)
class Row:
    """Panels side by side, of the same width, below a heading."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard."""

    uid: str
    title: str
    description: str
    rows: Sequence[Row] = field(default_factory=tuple)

    @property
    def panels(self) -> tuple[Panel, ...]:
        return tuple(panel for row in self.rows for panel in row.panels)


def render_dashboard(dashboard: Dashboard) -> str:
    """The dashboard as JSON, as Grafana imports and provisions it."""
    document = {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": ["paceline"],
        "timezone": "browser",
        "editable": True,
        "graphTooltip": 1,  # one cursor on all panels
        "schemaVersion": _SCHEMA_VERSION,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_DATASOURCE_VARIABLE, _REPLICA_VARIABLE]},
        "panels": _render_rows(dashboard.rows),
    }
    return json.dumps(document, indent=2) + "\n"


_DATASOURCE_VARIABLE = {
    "name": "datasource",
    "label": "Prometheus",
    "type": "datasource",
    "query": "prometheus",
}
_REPLICA_VARIABLE = {
    "name": "replica",
    "label": "Replica",
    "type": "query",
    "datasource": _SOURCE,
    "query": "label_values(paceline_replica_state, replica)",
    "refresh": 2,  # when the time range changes
    "sort": 1,
    "multi": True,
    "includeAll": True,
    "allValue": ".*",
    "current": {"text": "All", "value": "$__all"},
}


def _render_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    rendered: list[dict[str, Any]] = []
    y = 0
    for row in rows:
        heading = {"type": "row", "title": row.title, "collapsed": False, "panels": []}
        rendered.append({**heading, "gridPos": {"x": 0, "y": y, "w": _COLUMNS, "h": 1}})
        width = _COLUMNS // len(row.panels)
        for index, panel in enumerate(row.panels):
            place = {"x": index * width, "y": y + 1, "w": width, "h": _HEIGHT}
            rendered.append({**_render_panel(panel), "gridPos": place})
        y += 1 + _HEIGHT
    return [{"id": number, **panel} for number, panel in enumerate(rendered, start=1)]


def _render_panel(panel: Panel) -> dict[str, Any]:
    common = {
        "title": panel.title,
        "description": panel.description,
        "pluginVersion": _PLUGIN_VERSION,
        "datasource": _SOURCE,
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": _SOURCE,
                "expr": query.expr,
                "legendFormat": query.legend,
                "range": True,
            }
            for index, query in enumerate(panel.queries)
        ],
    }
    if isinstance(panel, Lines):
        return {"type": "timeseries", **common, **_lines(panel)}
    if isinstance(panel, States):
        return {"type": "state-timeline", **common, **_states(panel)}
    return {"type": "xychart", **common, **_scatter(panel)}


_LEGEND = {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []}


def _lines(panel: Lines) -> dict[str, Any]:
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if panel.limit is not None:
        steps = [{"color": "transparent", "value": None}, {"color": "red", "value": panel.limit}]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
        defaults["custom"] = {"thresholdsStyle": {"mode": "line"}}
    return {
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {"legend": _LEGEND, "tooltip": {"mode": "multi", "sort": "desc"}},
    }


def _states(panel: States) -> dict[str, Any]:
    texts = {
        f"{value:g}": {"text": text, "color": color, "index": index}
        for index, (value, (text, color)) in enumerate(panel.states.items())
    }
    defaults = {"mappings": [{"type": "value", "options": texts}]}
    return {
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "options": {
            "showValue": "auto",
            "mergeValues": True,
            "rowHeight": 0.9,
            "legend": {**_LEGEND, "showLegend": False},
            "tooltip": {"mode": "single", "sort": "none"},
        },
    }


def _scatter(panel: Scatter) -> dict[str, Any]:
    def by_name(query: Query) -> dict[str, Any]:
        return {"matcher": {"id": "byName", "options": query.legend}}

    series = [{"x": by_name(panel.x), "y": by_name(query)} for query in panel.ys]
    unit_of_y = [
        {
            "matcher": {"id": "byName", "options": query.legend},
            "properties": [{"id": "unit", "value": panel.unit}],
        }
        for query in panel.ys
    ]
    return {
        # One table with a row for each moment, so that the values of one moment are a point.
        "transformations": [{"id": "joinByField", "options": {"byField": "Time", "mode": "outer"}}],
        "fieldConfig": {
            "defaults": {"custom": {"show": "points", "pointSize": {"fixed": 5}}},
            "overrides": unit_of_y,
        },
        "options": {
            "mapping": "manual",
            "series": series,
            "legend": _LEGEND,
            "tooltip": {"mode": "single", "sort": "none"},
        },
    }
