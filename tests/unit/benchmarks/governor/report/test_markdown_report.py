"""The report holds targets, losses and links to its plots."""

from __future__ import annotations

from benchmarks.governor.report.adaptation import adaptations
from benchmarks.governor.report.analysis import analyse
from benchmarks.governor.report.markdown_report import render_report
from benchmarks.governor.report.measured import read_runs
from unit.benchmarks.governor.documents import REPORT_TOKENS, document_of


def test_the_report_names_targets_and_losses_and_links_the_plots() -> None:
    document = document_of(REPORT_TOKENS)
    measured = read_runs(document)
    findings = analyse(measured)
    adapted = {"goodput": adaptations(measured, "goodput", findings.oracle_arms)}
    text = render_report(document, measured, findings, adapted, [("A plot", "plot.svg")])
    for target in ("≥ 97%", "≥ 115%", "≥ 105%", "≥ 98%", "≤ 50"):
        assert target in text
    assert "| phase 1 | 35.0% (0.0% to 70.0%) | none |" in text
    assert "![A plot](plot.svg)" in text
