"""Write the report and the plots beside a result file: `NAME.md`, `NAME-*.svg`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.headline.measured import read_measured
from benchmarks.headline.plots import plot_published, plot_servers
from benchmarks.headline.report import render_report
from benchmarks.results_file import sibling
from paceline.foundation.results.files import write_text


def write_report(path: Path, document: Mapping[str, Any]) -> list[Path]:
    """The paths of the report and of the plots; no plots without a complete repeat."""
    try:
        measured = read_measured(document)
    except ValueError:
        plots = []
    else:
        plots = [
            ("Published ratios and the same ratios here", "published", plot_published(measured)),
            ("All servers", "servers", plot_servers(measured)),
        ]
    written, links = [], []
    for title, ending, text in plots:
        file = sibling(path, f"-{ending}.svg")
        write_text(file, text)
        written.append(file)
        links.append((title, file.name))
    report = sibling(path, ".md")
    write_text(report, render_report(document, links))
    return [report, *written]
