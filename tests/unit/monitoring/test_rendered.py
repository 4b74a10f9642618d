"""What is rendered: byte for byte as committed, of existing metrics, and described in the docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from paceline.operations.monitoring.alerts import AlertOptions, alerts
from paceline.operations.monitoring.command import RULES_FILE, render
from paceline.operations.monitoring.dashboards import DASHBOARDS
from paceline.operations.monitoring.queries import MetricQueries, UnknownMetric
from paceline.operations.monitoring.reference import render_alerts, render_metrics
from paceline.runtime.gateway.metrics.definitions import metric_definitions

GOLDEN = Path(__file__).parent / "golden"
DOCS = Path(__file__).parents[3] / "docs"
DEFINITIONS = metric_definitions()


def build_all(queries: MetricQueries) -> None:
    alerts(AlertOptions(), queries)
    for make in DASHBOARDS.values():
        make(queries)


def used_names() -> set[str]:
    """The metrics of the committed files."""
    text = "".join(file.read_text() for file in GOLDEN.iterdir())
    words = set(re.findall(r"\bpaceline_\w+", text))
    return {word.removesuffix("_bucket") for word in words}


def test_the_files_are_those_committed(tmp_path: Path) -> None:
    """After a change: paceline render alerts --output tests/unit/monitoring/golden, and
    dashboards."""
    for kind in ("alerts", "dashboards"):
        done = CliRunner().invoke(render, [kind, "--output", str(tmp_path / "new")])
        assert done.exit_code == 0, done.output
    written = {file.name: file.read_bytes() for file in (tmp_path / "new").iterdir()}
    assert written == {file.name: file.read_bytes() for file in GOLDEN.iterdir()}
    assert set(written) == {RULES_FILE, *DASHBOARDS}


@pytest.mark.parametrize("name", sorted(used_names()))
def test_a_metric_renamed_in_the_code_stops_the_build(name: str) -> None:
    renamed = {key: value for key, value in DEFINITIONS.items() if key != name}
    assert len(renamed) == len(DEFINITIONS) - 1
    with pytest.raises(UnknownMetric, match=name):
        build_all(MetricQueries(renamed))


@pytest.mark.parametrize(
    "options",
    [
        ["--for", "soon"], ["--availability", "1"], ["--availability", "0.9"],
        ["--job", 'a"b'], ["--output", "/dev/null/x"],
    ],
)  # fmt: skip
def test_wrong_options_are_refused(tmp_path: Path, options: list[str]) -> None:
    done = CliRunner().invoke(render, ["alerts", "--output", str(tmp_path), *options])
    assert done.exit_code == 2
    assert options[0] in done.output
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("page", "rendered"), [("metrics", render_metrics), ("alerts", render_alerts)]
)
def test_the_pages_are_current(page: str, rendered: object) -> None:
    """python -m paceline.operations.monitoring.reference PAGE > docs/PAGE.md."""
    assert callable(rendered)
    assert (DOCS / f"{page}.md").read_text() == rendered()
