"""A result file becomes a report with plots beside it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

from benchmarks.governor.report import files
from benchmarks.results_file import encode_result, read_result
from unit.benchmarks.governor.documents import REPORT_TOKENS, document_of


def write_made_up_result(folder: Path) -> Path:
    path = folder / "governor-x-2026-01-01.json.gz"
    document = {**document_of(REPORT_TOKENS), "tuning_runs": []}
    path.write_bytes(encode_result(path.name, document))
    assert read_result(path) == document
    return path


def check_files(written: list[Path]) -> None:
    report, *plots = written
    assert report.name == "governor-x-2026-01-01.md"
    assert [plot.name for plot in plots] == [
        f"governor-x-2026-01-01-{name}.svg" for name in ("throughput", "goodput", "regret")
    ]
    for plot in plots:
        assert plot.name in report.read_text()
        assert ElementTree.parse(plot).getroot().tag.endswith("svg")


def test_report_and_plots_are_written_beside_the_result(tmp_path: Path) -> None:
    check_files(files.write_report(write_made_up_result(tmp_path)))
