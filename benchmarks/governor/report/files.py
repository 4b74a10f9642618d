"""Write the files of a run: `NAME.json.gz` with all figures, the report `NAME.md` and the plots."""

from __future__ import annotations

from pathlib import Path

from benchmarks.governor.report.adaptation import adaptations
from benchmarks.governor.report.analysis import analyse
from benchmarks.governor.report.markdown_report import SUBJECTS, render_report
from benchmarks.governor.report.measured import read_runs
from benchmarks.governor.report.plots import plot_decisions, plot_regret, plot_throughput
from benchmarks.results_file import read_result, sibling
from paceline.bench.results.files import write_text


def write_report(path: Path) -> list[Path]:
    """Write report and plots beside the result file `path`; the paths of all of them."""
    document = read_result(path)
    measured = read_runs(document)
    findings = analyse(measured)
    subjects = [arm for arm in SUBJECTS if arm in measured.arms]
    adapted = {arm: adaptations(measured, arm, findings.oracle_arms) for arm in subjects}
    plots = [
        ("Tokens/s by phase and arm", "throughput", plot_throughput(measured, findings)),
        *(
            (f"Decisions of {arm}", arm, plot_decisions(measured, arm))
            for arm in subjects
            if arm == "goodput"
        ),
    ]
    compared = dict.fromkeys([findings.best_single, "table", *subjects])
    shown = [arm for arm in compared if arm in measured.arms]
    regret = plot_regret(measured, findings, shown)
    plots.append(("Tokens fewer than the oracle", "regret", regret))
    written = []
    links = []
    for title, suffix, text in plots:
        file = sibling(path, f"-{suffix}.svg")
        write_text(file, text)
        written.append(file)
        links.append((title, file.name))
    report = sibling(path, ".md")
    write_text(report, render_report(document, measured, findings, adapted, links))
    return [report, *written]
