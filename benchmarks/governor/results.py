"""Which files does a run leave, and how are they laid out?

`NAME.json` with everything measured, one run per line; beside it `NAME.md` and the plots.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.governor.adaptation import adaptations
from benchmarks.governor.analysis import analyse
from benchmarks.governor.measured import read_runs
from benchmarks.governor.plots import plot_decisions, plot_regret, plot_throughput
from benchmarks.governor.report import SUBJECTS, render_report
from benchmarks.governor.rows import render_results
from paceline.bench.results.files import write_text


def write_results(path: Path, document: Mapping[str, Any]) -> None:
    """The document, atomically."""
    write_text(path, render_results(document, ("tuning_runs", "runs")))


def write_report(path: Path) -> list[Path]:
    """Report and plots beside the results file `path`; what was written."""
    document = json.loads(path.read_text(encoding="utf-8"))
    measured = read_runs(document)
    findings = analyse(measured)
    subjects = [arm for arm in SUBJECTS if arm in measured.arms]
    adapted = {arm: adaptations(measured, arm, findings.oracle_arms) for arm in subjects}
    plots = [
        ("Tokens/s by phase and arm", "throughput", plot_throughput(measured, findings)),
        *(
            (f"What {arm} did", arm, plot_decisions(measured, arm))
            for arm in subjects
            if arm == "goodput"
        ),
    ]
    compared = dict.fromkeys([findings.best_single, "table", *subjects])
    shown = [arm for arm in compared if arm in measured.arms]
    regret = plot_regret(measured, findings, shown)
    plots.append(("Tokens behind the oracle", "regret", regret))
    written = []
    links = []
    for title, suffix, text in plots:
        file = path.with_name(f"{path.stem}-{suffix}.svg")
        write_text(file, text)
        written.append(file)
        links.append((title, file.name))
    report = path.with_suffix(".md")
    write_text(report, render_report(document, measured, findings, adapted, links))
    return [report, *written]
