"""`Monitor`: an alert, a recording rule or a panel with its expressions, from their documents.

Where these stand in a file is left to `resources`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from paceline.operations.doctor.readings.resources import NoMonitors, dashboards, rule_groups

_VARIABLE_QUERY = re.compile(
    r"\s*(?:label_values\s*\((?P<labels>.*),\s*\w+\s*\)|query_result\s*\((?P<result>.*)\))\s*",
    re.DOTALL,
)
"""Grafana's functions for the choices of a variable; others name no metric."""
_PROMETHEUS = ("prometheus", "datasource", "")
"""Types of sources with PromQL; "datasource" is Grafana's own for mixed ones."""


@dataclass(frozen=True, slots=True)
class Monitor:
    """One thing that looks at metrics."""

    kind: str
    """alert, recording rule, panel, variable or annotation."""
    name: str
    expressions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MonitorFile:
    """All of one file."""

    name: str
    monitors: tuple[Monitor, ...]

    @property
    def recorded(self) -> frozenset[str]:
        """Metrics that its rules compute."""
        return frozenset(one.name for one in self.monitors if one.kind == "recording rule")


def monitors_of_rules(documents: list[Any]) -> tuple[Monitor, ...]:
    """Of rule files, wherever their groups stand: see `rule_groups`. Raises NoMonitors."""
    found: list[Monitor] = []
    has_groups = False
    for groups in rule_groups(documents):
        has_groups = True
        for rule in (_mapping(rule) for group in groups for rule in _list(group, "rules")):
            kind = "recording rule" if "record" in rule else "alert"
            name = rule.get("alert", rule.get("record", rule.get("title")))
            expressions = tuple(_of_rule(rule))
            if isinstance(name, str | int | float) and expressions:
                found.append(Monitor(kind, str(name), expressions))
    if not has_groups:
        raise NoMonitors("it has no groups of rules, nor has a text or an item in it")
    return tuple(found)


def _of_rule(rule: Mapping[str, Any]) -> Iterator[str]:
    """Its expression; of an alert of Grafana, those of its queries."""
    expression = rule.get("expr")
    if isinstance(expression, str | int | float):
        yield str(expression)
    for query in map(_mapping, _list(rule, "data")):
        yield from _expressions(_mapping(query.get("model")))


def monitors_of_dashboards(documents: list[Any]) -> tuple[Monitor, ...]:
    """Of Grafana's JSON models, wherever they stand: see `dashboards`. Raises NoMonitors."""
    tops = list(dashboards(documents))
    if not tops:
        raise NoMonitors("it has no panels, nor has a text or an item in it")
    found = [monitor for top in tops for monitor in _of_dashboard(top)]
    return tuple(one for one in found if one.expressions)


def _of_dashboard(top: Mapping[str, Any]) -> Iterator[Monitor]:
    yield from _panels(top)
    elements = _mapping(top.get("elements"))  # of the second version of the model
    for element in map(_mapping, elements.values()):
        spec = _mapping(element.get("spec"))
        yield Monitor("panel", str(spec.get("title")), tuple(_queries(spec.get("data"))))
    for one in map(_mapping, _list(top.get("templating"), "list")):
        yield Monitor("variable", str(one.get("name")), _of_variable(one.get("query")))
    for one in map(_mapping, _list(top.get("annotations"), "list")):
        yield Monitor("annotation", str(one.get("name")), tuple(_expressions(one)))


def _queries(data: Any) -> Iterator[str]:
    """The expressions of Prometheus in the queries of a panel in the second version."""
    for query in map(_mapping, _list(_mapping(data).get("spec"), "queries")):
        inner = _mapping(_mapping(query.get("spec")).get("query"))
        expression = _mapping(inner.get("spec")).get("expr")
        source = str(inner.get("group", inner.get("kind", "")))
        is_prometheus = source in (*_PROMETHEUS, "DataQuery")
        if is_prometheus and isinstance(expression, str) and expression:
            yield expression


def _panels(holder: Mapping[str, Any]) -> Iterator[Monitor]:
    """Also those inside of rows, which were a list of their own until Grafana 5."""
    for row in map(_mapping, _list(holder, "rows")):
        yield from _panels(row)
    for panel in map(_mapping, _list(holder, "panels")):
        if _is_prometheus(panel):
            expressions = [
                text
                for target in _list(panel, "targets")
                for text in _expressions(_mapping(target))
            ]
            yield Monitor("panel", str(panel.get("title")), tuple(expressions))
        yield from _panels(panel)


def _expressions(target: Mapping[str, Any]) -> Iterator[str]:
    for holder in (target, _mapping(target.get("target"))):
        expression = holder.get("expr")
        if isinstance(expression, str) and expression and _is_prometheus(target):
            yield expression


def _is_prometheus(holder: Mapping[str, Any]) -> bool:
    source = holder.get("datasource")
    return str(_mapping(source).get("type") or "") in _PROMETHEUS


def _of_variable(query: Any) -> tuple[str, ...]:
    text = query.get("query") if isinstance(query, dict) else query
    match = _VARIABLE_QUERY.fullmatch(text) if isinstance(text, str) else None
    return () if match is None else (match["labels"] or match["result"] or "",)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(holder: Any, key: str) -> list[Any]:
    value = _mapping(holder).get(key)
    return value if isinstance(value, list) else []
