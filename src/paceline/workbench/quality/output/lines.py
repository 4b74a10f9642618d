"""The report for a terminal: a table of all candidates, and each verdict with its reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from paceline.foundation.answer_quality.decisions.verdict import ERRORS
from paceline.foundation.answer_quality.values import Interval
from paceline.workbench.quality.candidate import CandidateReport

_HEAD = (
    "candidate", "format", "size", "divergence", "p99", "times rounding", "top-1", "perplexity",
    "score", "acceptance", "verdict",
)  # fmt: skip


def render_lines(reports: Sequence[CandidateReport], num_prompts: int) -> Iterator[str]:
    """The lines. Divergences are in 1/1000 nats per token."""
    yield f"{num_prompts} prompts; divergence in 1/1000 nats per token, intervals at 95 % each side"
    rows = [_HEAD, *(_row(report) for report in reports)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    for report in reports:
        decision = report.decision
        where = "" if decision.tier is None else f" (tier {decision.tier})"
        yield ""
        yield f"{report.model}: {decision.verdict}{where}"
        for reason in decision.reasons:
            yield f"  {reason}"
        for change in report.acceptance:
            yield (
                f"  acceptance, {change.sampling}: {change.baseline:.3f} -> {change.candidate:.3f} "
                f"({change.low:+.3f} to {change.high:+.3f}); no part of the verdict"
            )
        if report.acceptance_lacking:
            yield f"  acceptance was not compared: {report.acceptance_lacking}"
    yield ""
    yield f"Errors: {ERRORS}."


def _row(report: CandidateReport) -> tuple[str, ...]:
    start = (Path(report.model).name, report.format, f"{report.num_bytes / 1e6:,.1f} MB")
    found = report.fidelity
    if found is None:
        return (*start, *["-"] * 7, report.decision.verdict)
    outcomes, acceptance = report.outcomes, report.acceptance
    return (
        *start,
        f"{1000 * found.mean_kl_nats:.3g}",
        f"{1000 * found.p99_kl_nats:.3g}",
        "-" if found.ratio is None else _ratio(found.ratio),
        f"{found.agreement:.1%}",
        _increase(found.perplexity_increase),
        "-"
        if outcomes is None
        else f"{outcomes.baseline_score:.3f} -> {outcomes.candidate_score:.3f}",
        "-" if not acceptance else f"{acceptance[0].candidate - acceptance[0].baseline:+.3f}",
        report.decision.verdict,
    )


def _increase(increase: Interval) -> str:
    if increase.high is None:
        return f"{increase.value:+.2%}"
    return f"{increase.value:+.2%} (at most {increase.high:+.2%})"


def _ratio(ratio: Interval) -> str:
    if ratio.low is None or ratio.high is None:
        return f"{ratio.value:.2f}"
    return f"{ratio.value:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
