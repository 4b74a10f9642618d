"""`Monitor`: an alert, a recording rule or a panel with its expressions, from their documents."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_VARIABLE_QUERY = re.compile(
    r"\s*(?:label_values\s*\((?P<labels>.*),\s*\w+\s*\)|query_result\s*\((?P<result>.*)\))\s*",
    re.DOTALL,
)
"""Grafana's functions for the choices of a variable; others name no metric."""
_PROMETHEUS = ("prometheus", "datasource", "")
"""Types of sources with PromQL; "datasource" is Grafana's own for mixed ones."""


class NoMonitors(Exception):
    """The document is no rule file or dashboard. The message says what is missing."""


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


def monitors_of_rules(documents: Sequence[Any]) -> tuple[Monitor, ...]:
    """Of a rule file of Prometheus, or of PrometheusRule resources. Raises NoMonitors."""
    found: list[Monitor] = []
    has_groups = False
    for document in documents:
        top = _mapping(document)
        groups = top.get("groups", _mapping(top.get("spec")).get("groups"))
        if not isinstance(groups, list):
            continue
        has_groups = True
        for rule in (_mapping(rule) for group in groups for rule in _list(group, "rules")):
            kind = "alert" if "alert" in rule else "recording rule"
            name, expression = rule.get("alert", rule.get("record")), rule.get("expr")
            if isinstance(name, str | int | float) and isinstance(expression, str | int | float):
                found.append(Monitor(kind, str(name), (str(expression),)))
    if not has_groups:
        raise NoMonitors("it has no groups of rules")
    return tuple(found)


def monitors_of_dashboard(document: Any) -> tuple[Monitor, ...]:
    """Of Grafana's JSON model, also as its API gives it. Raises NoMonitors."""
    top = _mapping(document)
    top = _mapping(top.get("dashboard", top))
    if not isinstance(top.get("panels"), list):
        raise NoMonitors("it has no panels")
    variables = [
        Monitor("variable", str(one.get("name")), _of_variable(one.get("query")))
        for one in map(_mapping, _list(top.get("templating"), "list"))
    ]
    annotations = [
        Monitor("annotation", str(one.get("name")), tuple(_expressions(one)))
        for one in map(_mapping, _list(top.get("annotations"), "list"))
    ]
    found = (*_panels(top), *variables, *annotations)
    return tuple(one for one in found if one.expressions)


def _panels(holder: Mapping[str, Any]) -> Iterator[Monitor]:
    """Also those inside of rows."""
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
