"""Print the results of the checks."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.printable import printable
from paceline.serve.startup_checks.values import CheckResult, Verdict

_WIDTH = max(len(verdict) for verdict in Verdict)


def render_report(results: Sequence[CheckResult]) -> str:
    """Return one line for each check, then their number by verdict."""
    names = max((len(result.check) for result in results), default=0)
    lines = [
        f"{result.verdict:<{_WIDTH}}  {result.check:<{names}}  {result.text}" for result in results
    ]
    counts = [(verdict, sum(one.verdict is verdict for one in results)) for verdict in Verdict]
    total = ", ".join(f"{count} {verdict}" for verdict, count in counts if count)
    return "\n".join(map(printable, [*lines, f"{len(results)} checks: {total}"]))


def refusals(results: Sequence[CheckResult]) -> list[str]:
    """Return why the server cannot start, one sentence for each reason; empty if it can."""
    return [
        printable(f"{result.text} (check {result.check}; engine.skip_checks leaves it out)")
        for result in results
        if result.verdict is Verdict.REFUSED
    ]


def warnings(results: Sequence[CheckResult]) -> list[str]:
    """Return what works worse than it could, or may fail."""
    return [printable(one.text) for one in results if one.verdict is Verdict.WARNING]
