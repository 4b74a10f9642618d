"""The document: its verdict, its schema, and that it can be read back."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from paceline.operations.validate.report.document import (
    Verdict,
    decide_verdict,
    render_document,
    render_schema,
)
from paceline.operations.validate.report.reading import ReportUnreadable, read_report
from paceline.operations.validate.values import Status
from unit.validate.samples import document, result

SCHEMA = Path(__file__).parents[4] / "docs" / "validate.schema.json"


@pytest.mark.parametrize(
    ("checks", "required", "verdict"),
    [
        ([result("a")], (), Verdict.PASSED),
        ([result("a"), result("b", Status.SKIP)], (), Verdict.PASSED),
        ([result("a", Status.SKIP), result("b", Status.SKIP)], (), Verdict.INCOMPLETE),
        ([result("a"), result("b", Status.SKIP)], ("b",), Verdict.FAILED),
        ([result("a"), result("b", Status.FAIL)], (), Verdict.FAILED),
        ([result("a"), result("b", Status.SKIP, is_final=False)], (), Verdict.INCOMPLETE),
        ([result("a"), result("b", Status.SKIP, is_final=False)], ("b",), Verdict.INCOMPLETE),
        (
            [result("a", Status.FAIL), result("b", Status.SKIP, is_final=False)],
            (),
            Verdict.FAILED,
        ),
    ],
)
def test_the_verdict_follows_from_the_checks(checks, required, verdict) -> None:  # type: ignore[no-untyped-def]
    assert decide_verdict(checks, required) is verdict


def test_a_document_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    written = document(result("a", p99_ms=1.5, is_on=True, name="x", none=None))
    file = tmp_path / "report.json"
    file.write_text(json.dumps(render_document(written)))
    assert read_report(file) == written
    assert "secret" not in file.read_text()


def test_a_byte_order_mark_before_a_report_is_ignored(tmp_path: Path) -> None:
    written = document(result("a"))
    file = tmp_path / "report.json"
    file.write_text(json.dumps(render_document(written)), encoding="utf-8-sig", newline="\r\n")
    assert read_report(file) == written


def test_the_page_of_the_schema_is_up_to_date() -> None:
    """Its module prints it: python -m paceline.operations.validate.report.document."""
    assert json.loads(SCHEMA.read_text()) == json.loads(json.dumps(render_schema()))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "kind None"),
        ("{", "not readable JSON"),
        ('{"kind": "paceline bench run"}', "kind 'paceline bench run'"),
        ('{"kind": "paceline validate", "schema_version": 2}', "schema_version 2"),
        ('{"kind": "paceline validate", "schema_version": 1}', "does not fit the schema"),
        ('{"kind": "paceline validate", "kind": "x"}', "the key 'kind' occurs twice"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "report.json"
    file.write_text(text)
    with pytest.raises(ReportUnreadable, match=reason):
        read_report(file)


def test_an_unknown_status_is_refused(tmp_path: Path) -> None:
    values = msgspec.to_builtins(render_document(document(result("a"))))
    values["checks"][0]["status"] = "OK"
    file = tmp_path / "report.json"
    file.write_text(json.dumps(values))
    with pytest.raises(ReportUnreadable, match="Invalid enum value 'OK'"):
        read_report(file)
