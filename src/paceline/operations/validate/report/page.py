"""Render a validation as one HTML page without external resources."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from html import escape

from paceline.foundation.results.elements import (
    bullets,
    cards,
    environment,
    paragraph,
    properties,
    section,
    table,
)
from paceline.foundation.results.frame import render_page
from paceline.foundation.results.text import moment, number
from paceline.operations.validate.report.comparison import Comparison, describe_previous
from paceline.operations.validate.report.document import Part, ValidationDocument, Verdict
from paceline.operations.validate.report.signing import fingerprint_of
from paceline.operations.validate.values import CheckResult, Figure, Group, Status

_TITLES = {
    Group.API: "OpenAI API",
    Group.SECURITY: "Security",
    Group.OPERATION: "Operation",
    Group.PERFORMANCE: "Performance",
    Group.OUTPUT: "Output",
}
_CSS = {Status.PASS: "good", Status.FAIL: "bad", Status.SKIP: "quiet"}
_VERDICTS = {
    Verdict.PASSED: ("The deployment passed.", "verdict good"),
    Verdict.FAILED: ("The deployment failed.", "verdict bad"),
    Verdict.INCOMPLETE: ("The validation is not complete.", "verdict"),
}


def render_validation(document: ValidationDocument) -> str:
    """The page of a validation."""
    server = document.server
    title = f"Validation of {server.model}"
    subtitle = f"{server.url} · tier {document.tier.name} · {moment(document.environment.date_utc)}"
    return render_page(title, subtitle, "".join(_sections(document)))


def _sections(document: ValidationDocument) -> Iterable[str]:
    text, css_class = _VERDICTS[document.verdict]
    yield paragraph(text, css_class)
    yield cards(
        [
            ("passed", str(document.num_passed), "checks"),
            ("failed", str(document.num_failed), "checks"),
            ("skipped", str(document.num_skipped), "checks"),
            ("time", number(document.seconds), "s"),
        ]
    )
    for group, heading in _TITLES.items():
        if chosen := [check for check in document.checks if check.group is group]:
            yield section(heading, _checks(chosen))
    if figures := [check for check in document.checks if check.figures]:
        yield section("Figures", _figures(figures))
    if document.comparison is not None:
        yield section(
            "Since the previous run", _comparison(document.comparison, document.tier.name)
        )
    yield section(f"Tier {document.tier.name}", properties(asdict(document.tier)))
    yield section("Server", properties(asdict(document.server)))
    yield section("Settings", properties(document.config))
    if document.parts:
        yield section("Runs", _parts(document.parts))
    yield section("Environment", environment(asdict(document.environment)))
    yield section("Signature", paragraph(_signature(document)))


def _checks(checks: Sequence[CheckResult]) -> str:
    rows = "".join(
        f'<tr><td class="{_CSS[check.status]}"><strong>{check.status}</strong></td>'
        f'<td style="text-align:left"><strong>{escape(check.proves)}</strong><br>'
        f'<span class="quiet">{escape(check.reason)}</span></td>'
        f"<td>{escape(check.id)}<br>{check.seconds:.1f} s</td></tr>"
        for check in checks
    )
    return f'<div class="scroll"><table><tbody>{rows}</tbody></table></div>'


def _figures(checks: Sequence[CheckResult]) -> str:
    rows = [
        (check.id, name.replace("_", " "), _figure(value))
        for check in checks
        for name, value in check.figures.items()
    ]
    return table(("check", "figure", "value"), rows)


def _figure(value: Figure) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value, 4)
    return "none" if value is None else value


def _parts(parts: Sequence[Part]) -> str:
    rows = [(moment(one.date_utc), one.paceline, str(len(one.checks))) for one in parts]
    return table(("date", "paceline", "checks"), rows)


def _comparison(comparison: Comparison, tier: str) -> str:
    previous = describe_previous(comparison, tier)
    parts = [
        paragraph(f"The run of {moment(comparison.previous_date_utc)}, {previous}."),
        bullets((f"worse: {name}" for name in comparison.worse), "bad"),
        bullets((f"better: {name}" for name in comparison.better), "good"),
    ]
    rows = [
        (change.id, figure.name.replace("_", " "), number(figure.before, 4), number(figure.now, 4))
        for change in comparison.changes
        for figure in change.figures
    ]
    if rows:
        parts.append(table(("check", "figure", "before", "now"), rows))
    return "".join(parts)


def _signature(document: ValidationDocument) -> str:
    if document.signature is None:
        return "This report is not signed."
    key = fingerprint_of(document.signature.public_key)
    return (
        f"The JSON report is signed with the Ed25519 key {key}; "
        "paceline validate --verify FILE checks it. This page is not signed."
    )
