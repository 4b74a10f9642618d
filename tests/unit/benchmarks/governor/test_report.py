"""The report holds targets and losses; the plots are pictures; results survive a round trip."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

from benchmarks.governor.plan import Wishes, build_plan
from benchmarks.governor.results import write_report, write_results
from unit.benchmarks.governor.documents import document_of

TOKENS = {
    "none": [[50, 300], [50, 300]],
    "K=0": [[40, 200], [60, 220]],
    "K=2": [[100, 100], [100, 120]],
    "table": [[100, 200], [100, 220]],
    "goodput": [[100, 210], [110, 0]],
}


def test_a_results_file_becomes_a_report_with_plots(tmp_path: Path) -> None:
    document = {**document_of(TOKENS), "tuning_runs": []}
    path = tmp_path / "governor-x-2026-01-01.json"
    write_results(path, document)
    assert json.loads(path.read_text()) == document
    report, *plots = write_report(path)
    text = report.read_text()
    for target in ("≥ 97%", "≥ 115%", "≥ 105%", "≥ 98%", "≤ 50"):
        assert target in text
    assert "| phase 1 | 35.0% (0.0% to 70.0%) | none |" in text
    assert len(plots) == 3
    for plot in plots:
        assert plot.name in text
        assert ElementTree.parse(plot).getroot().tag.endswith("svg")


def test_the_bundled_pair_is_named_without_a_folder() -> None:
    wishes = Wishes("bundled", "model", "bundled", 5, 1, 4.0, 1024, ("K=0",))
    command = build_plan(wishes)["servers"]["drafted"]["command"]
    assert command[command.index("--draft") + 1] == "auto"
    assert "bundled" not in command


def test_equal_wishes_make_an_equal_plan_after_json() -> None:
    """What `--resume` relies on."""
    wishes = Wishes("runs/twin", "ngram", "bundled", 5, 1, 8.0, 640, ("none", "K=0"))
    plan = build_plan(wishes)
    assert json.loads(json.dumps(plan)) == json.loads(json.dumps(build_plan(wishes)))
    assert plan["name"] == "governor-twin-ngram"
