"""The page and the lines of a validation."""

from __future__ import annotations

from dataclasses import replace

from paceline.operations.validate.report.comparison import compare
from paceline.operations.validate.report.document import Part
from paceline.operations.validate.report.lines import render_result, render_summary
from paceline.operations.validate.report.page import render_validation
from paceline.operations.validate.values import Status
from unit.validate.samples import document, result

CHECKS = (
    result("a", p99_ms=12.25),
    result("b", Status.FAIL),
    result("c", Status.SKIP),
)


def test_the_page_shows_every_check_and_loads_nothing() -> None:
    page = render_validation(document(*CHECKS))
    for check in CHECKS:
        assert check.proves in page
        assert f"&lt;{check.id}&gt; was observed" in page
    assert "The deployment failed." in page
    assert "12.25" in page
    assert "not signed" in page
    assert not any(mark in page for mark in ("src=", "href=", "url(", "<script", "@import"))


def test_the_page_shows_what_changed() -> None:
    before = (result("a", p99_ms=10.0), result("b"))
    comparison = compare(
        before,
        CHECKS,
        previous_date_utc="2026-11-22T10:00:00+00:00",
        previous_model="older",
        previous_tier="local",
    )
    page = render_validation(replace(document(*CHECKS), comparison=comparison))
    assert "worse: b" in page
    assert "<td>p99 ms</td><td>10</td><td>12.25</td>" in page


def test_the_lines_name_failures_and_required_skips() -> None:
    assert render_result(CHECKS[1]) == "FAIL  b                   <b> was observed"
    lines = render_summary(document(*CHECKS, required=("c",)))
    assert lines[1].startswith("failed: 1 passed, 1 failed, 1 skipped")
    assert lines[2:] == [
        "  FAIL  b: <b> was observed",
        "  SKIP  c, which --require or --only names",
    ]


def test_a_reason_does_not_steer_the_terminal() -> None:
    bad = replace(result("b", Status.FAIL), reason="status 500: \x1b[2J\r\nPASS")
    line = r"status 500: \x1b[2J\r\nPASS"
    assert render_result(bad).endswith(line)
    assert render_summary(document(bad))[2] == f"  FAIL  b: {line}"


def test_a_previous_report_does_not_steer_the_terminal() -> None:
    """Its model's name came from a server."""
    comparison = compare(
        (result("a\x1b[2J", p99_ms=1.0),),
        (result("a"),),
        previous_date_utc="2026-11-22T10:00:00+00:00",
        previous_model="\x1b[2J\nfailed: none",
        previous_tier="local",
    )
    lines = render_summary(replace(document(result("a")), comparison=comparison))
    assert r"(\x1b[2J\nfailed: none):" in lines[3]
    assert all(line.isprintable() for line in lines)


def test_the_lines_say_when_no_check_passed() -> None:
    lines = render_summary(document(result("b", Status.SKIP)))
    assert lines[1].startswith("incomplete: 0 passed")
    assert lines[2:] == ["  no check passed"]


def test_the_page_lists_the_runs() -> None:
    parts = (Part("2026-11-22T10:00:00+00:00", "0.1.0", ("a", "b")),)
    page = render_validation(replace(document(*CHECKS), parts=parts))
    assert "<td>0.1.0</td><td>2</td>" in page


def test_the_lines_of_an_interrupted_validation_name_what_is_left() -> None:
    lines = render_summary(document(result("a"), result("b", Status.SKIP, is_final=False)))
    assert lines[1].startswith("incomplete: 1 passed")
    assert lines[2:] == ["  1 checks were not reached; --resume runs them"]


def test_the_lines_of_a_comparison_name_changes() -> None:
    comparison = compare(
        (result("a", p99_ms=10.0), result("b", Status.FAIL)),
        (result("a", p99_ms=12.5), result("b")),
        previous_date_utc="2026-11-22T10:00:00+00:00",
        previous_model="older",
        previous_tier="local",
    )
    lines = render_summary(replace(document(result("a")), comparison=comparison))
    assert lines[-3:] == [
        "Since 2026-11-22T10:00:00+00:00 (older):",
        "  better: b",
        "  a: p99_ms 10 → 12.5",
    ]
