"""The dashboards: known to Grafana's own model, laid out, with valid queries."""

from __future__ import annotations

import doctest
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from paceline.operations.monitoring.dashboards import DASHBOARDS, model
from paceline.operations.monitoring.dashboards.model import render_dashboard
from paceline.operations.monitoring.queries import MetricQueries
from unit.monitoring.grafana_model import find_misfits
from unit.monitoring.promtool import run_promtool

QUERIES = MetricQueries()
NAMES = sorted(DASHBOARDS)


def document_of(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(render_dashboard(DASHBOARDS[name](QUERIES)))
    return document


def test_the_examples_of_the_docstrings_are_right() -> None:
    assert doctest.testmod(model) == (0, 1)


@pytest.mark.parametrize("name", NAMES)
def test_grafana_has_every_field_and_value(name: str) -> None:
    assert find_misfits(document_of(name)) == []


def test_a_field_or_value_that_grafana_does_not_have_is_found() -> None:
    document = document_of("paceline-speculation.json")
    scatter = next(panel for panel in document["panels"] if panel["type"] == "xychart")
    scatter["options"]["mapping"] = "unheard of"
    scatter["options"]["dims"] = {}
    document["colour"] = "blue"
    at = f".panels[{scatter['id'] - 1}].options"
    assert sorted(find_misfits(document)) == [".colour", f"{at}.dims", f"{at}.mapping"]


@pytest.mark.parametrize("name", NAMES)
def test_panels_fill_the_grid_without_overlap(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in document_of(name)["panels"]:
        place = panel["gridPos"]
        columns = range(place["x"], place["x"] + place["w"])
        cells = {(x, y) for x in columns for y in range(place["y"], place["y"] + place["h"])}
        assert cells.isdisjoint(taken), panel["title"]
        assert max(columns) < 24
        taken |= cells
    assert len(taken) == 24 * (1 + max(y for _, y in taken))


@pytest.mark.parametrize("name", NAMES)
def test_panels_have_titles_ids_and_reasons_to_exist(name: str) -> None:
    panels = document_of(name)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["title"]
        if panel["type"] != "row":
            assert panel["description"].endswith(".")
            assert panel["targets"]


def test_promtool_accepts_every_query(tmp_path: Path) -> None:
    expressions = [
        query.expr
        for make in DASHBOARDS.values()
        for panel in make(QUERIES).panels
        for query in panel.queries
    ]
    recorded = [
        {
            "record": f"query:{number}",
            "expr": expr.replace("$__rate_interval", "1m").replace("$replica", ".*"),
        }
        for number, expr in enumerate(expressions)
    ]
    assert len(recorded) > 40
    document = {"groups": [{"name": "queries", "rules": recorded}]}
    (tmp_path / "queries.yaml").write_text(yaml.safe_dump(document))
    run_promtool("check", "rules", "queries.yaml", cwd=tmp_path)
