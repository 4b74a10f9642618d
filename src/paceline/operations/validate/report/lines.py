"""Render a validation as lines for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.operations.validate.report.comparison import Comparison, describe_previous
from paceline.operations.validate.report.document import ValidationDocument, Verdict
from paceline.operations.validate.values import CheckResult, Status

_ID_CHARS = 19
_MAX_SHOWN_CHANGES = 20


def render_result(result: CheckResult) -> str:
    """One line about one check."""
    return f"{result.status}  {result.id:<{_ID_CHARS}} {_printable(result.reason)}"


def render_summary(document: ValidationDocument) -> list[str]:
    """The verdict, and what changed since the previous run."""
    lines = [
        "",
        f"{document.verdict}: {document.num_passed} passed, {document.num_failed} failed, "
        f"{document.num_skipped} skipped, in {document.seconds:.0f} s",
    ]
    lines += [
        f"  FAIL  {check.id}: {_printable(check.reason)}" for check in _failed(document.checks)
    ]
    required = _required_skips(document)
    if document.verdict is not Verdict.INCOMPLETE:
        lines += [f"  SKIP  {name}, which --require or --only names" for name in required]
    else:
        num = sum(not check.is_final for check in document.checks)
        rest = f"{num} checks were not reached; --resume runs them" if num else "no check passed"
        lines.append(f"  {rest}")
    if document.comparison is not None:
        lines += _comparison(document.comparison, document.tier.name)
    return lines


def _printable(text: str) -> str:
    r"""The text with control characters escaped: a server's answer must not steer the terminal.

    >>> _printable("a\x1b[2Jb")
    'a\\x1b[2Jb'
    """
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in text)


def _failed(checks: Sequence[CheckResult]) -> list[CheckResult]:
    return [check for check in checks if check.status is Status.FAIL]


def _required_skips(document: ValidationDocument) -> list[str]:
    skipped = {check.id for check in document.checks if check.status is Status.SKIP}
    return [name for name in document.required if name in skipped]


def _comparison(comparison: Comparison, tier: str) -> list[str]:
    previous = f"{comparison.previous_date_utc} ({describe_previous(comparison, tier)})"
    lines = ["", f"Since {_printable(previous)}:"]
    lines += [f"  worse: {_printable(name)}" for name in comparison.worse]
    lines += [f"  better: {_printable(name)}" for name in comparison.better]
    figures = [
        f"  {_printable(f'{change.id}: {figure.name}')} {figure.before:g} → {figure.now:g}"
        for change in comparison.changes
        for figure in change.figures
    ]
    lines += figures[:_MAX_SHOWN_CHANGES]
    if len(figures) > _MAX_SHOWN_CHANGES:
        lines.append(f"  and {len(figures) - _MAX_SHOWN_CHANGES} more figures, in the report")
    return lines if len(lines) > 2 else [*lines, "  nothing changed"]
