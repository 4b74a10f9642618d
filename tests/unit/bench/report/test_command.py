"""`paceline bench report` from a file to a page."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner, Result

from paceline.workbench.bench.command import bench
from unit.bench.report.documents import run_document


def invoke(*words: str) -> Result:
    return CliRunner().invoke(bench, ["report", *words])


def test_a_document_becomes_a_page(tmp_path: Path) -> None:
    file, page = tmp_path / "run.json", tmp_path / "run.html"
    file.write_text(json.dumps(run_document()))
    result = invoke(str(file), "--html", str(page))
    assert result.exit_code == 0, result.output
    assert page.read_text().startswith("<!doctype html>")


def test_a_document_that_an_editor_marked_becomes_a_page(tmp_path: Path) -> None:
    file, page = tmp_path / "run.json", tmp_path / "run.html"
    file.write_text(json.dumps(run_document()), encoding="utf-8-sig")
    assert invoke(str(file), "--html", str(page)).exit_code == 0


def test_files_that_are_no_document_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "other.json"
    for text, message in (("{", "not readable JSON"), ("[]", "not a JSON object"), ("{}", "kind")):
        file.write_text(text)
        result = invoke(str(file), "--html", str(tmp_path / "page.html"))
        assert result.exit_code == 1
        assert message in result.output
    assert not (tmp_path / "page.html").exists()


def test_a_folder_that_does_not_exist_is_wrong_usage(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps(run_document()))
    result = invoke(str(file), "--html", str(tmp_path / "absent" / "page.html"))
    assert result.exit_code == 2
    assert "folder that does not exist" in result.output
