"""The options of `paceline validate`, and `--verify`."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from paceline.operations.validate import command
from paceline.operations.validate.command import _TIERS, validate
from paceline.operations.validate.report.document import render_document
from paceline.operations.validate.report.signing import sign
from paceline.operations.validate.tiers import tiers
from unit.validate.report.test_signing import KEY, OTHER, signed
from unit.validate.samples import document, result


@pytest.fixture
def report(tmp_path: Path) -> Path:
    file = tmp_path / "report.json"
    file.write_text(json.dumps(signed()))
    return file


def public_key(tmp_path: Path, key: object) -> str:
    import base64

    file = tmp_path / "key.pub"
    file.write_bytes(base64.b64encode(key.public_key().public_bytes_raw()))  # type: ignore[attr-defined]
    return str(file)


def test_verify_names_the_signer_and_the_verdict(report: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        validate, ["--verify", str(report), "--public-key", public_key(tmp_path, KEY)]
    )
    assert done.exit_code == 0
    assert done.output.startswith("valid: signed by SHA256:")
    assert "failed: http://127.0.0.1:8000, m, tier local" in done.output


def test_verify_fails_for_a_changed_report_an_unsigned_one_and_another_key(
    report: Path, tmp_path: Path
) -> None:
    other = ["--public-key", public_key(tmp_path, OTHER)]
    done = CliRunner().invoke(validate, ["--verify", str(report), *other])
    assert (done.exit_code, "not by SHA256" in done.output) == (1, True)
    report.write_text(report.read_text().replace('"FAIL"', '"PASS"'))
    done = CliRunner().invoke(validate, ["--verify", str(report)])
    assert (done.exit_code, "changed after it was signed" in done.output) == (1, True)
    report.write_text(json.dumps(render_document(document(result("a")))))
    done = CliRunner().invoke(validate, ["--verify", str(report)])
    assert (done.exit_code, "not signed" in done.output) == (1, True)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{}", "it must be the JSON of paceline validate"),
        ('{"kind": "paceline validate", "sche', "is not readable JSON"),
        ("[" * 100_000, "is not readable JSON"),
    ],
)
def test_verify_of_another_file_or_of_half_a_report_is_not_valid(
    tmp_path: Path, text: str, reason: str
) -> None:
    file = tmp_path / "other.json"
    file.write_text(text)
    done = CliRunner().invoke(validate, ["--verify", str(file)])
    assert (done.exit_code, reason in done.output) == (1, True)
    assert done.output.startswith("not valid: ")


def test_a_verified_report_cannot_forge_a_line_or_steer_the_terminal(tmp_path: Path) -> None:
    """Anybody can sign a report; its model's name is what a server said."""
    forged = signed()
    forged["server"]["model"] = "m\x1b[2J\nvalid: signed by SHA256:boss"
    file = tmp_path / "report.json"
    file.write_text(json.dumps(sign(forged, KEY)))
    done = CliRunner().invoke(validate, ["--verify", str(file)])
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert len(lines) == 3
    assert all(line.isprintable() for line in lines)


def interrupted(url: str, options: object) -> None:
    raise KeyboardInterrupt


def defective(url: str, options: object) -> None:
    raise KeyError("checks")


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        (interrupted, "interrupted before the first check"),
        (defective, "the validation ended with an unexpected KeyError"),
    ],
)
def test_an_interruption_and_a_defect_are_no_verdict(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ends: object, message: str
) -> None:
    """Python and click would exit with 1, which is `failed`."""
    monkeypatch.setattr(command, "_validate", ends)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    done = CliRunner().invoke(validate, ["http://h"])
    assert (done.exit_code, message in done.output) == (4, True), done.output


def test_verify_with_a_file_that_is_no_key_is_no_answer(report: Path) -> None:
    done = CliRunner().invoke(validate, ["--verify", str(report), "--public-key", str(report)])
    assert done.exit_code == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Give the URL"),
        (["http://h", "--public-key", "KEY"], "--public-key is for --verify"),
        (["http://h", "--verify", "KEY"], "leave URL out"),
        (["http://h", "--resume"], "--resume needs --json"),
        (["http://h", "--sign", "KEY"], "--sign needs --json"),
        (["http://h", "--only", "nothing"], "--only is nothing, which is no check"),
        (["http://h", "--only", "usage", "--require", "health"], "--require is health"),
        (["http://h", "--json", "/nowhere/report.json"], "does not exist"),
        (["h"], "must look like http"),
        (["http://h", "--audit-seconds", "nan"], "not a finite number"),
    ],
)
def test_wrong_usage_is_refused_with_what_is_allowed(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    file = tmp_path / "KEY"
    file.write_text("")
    given = [str(file) if one == "KEY" else one for one in arguments]
    done = CliRunner().invoke(validate, given)
    assert (done.exit_code, message in done.output) == (2, True), done.output


def test_a_server_that_is_not_there_gives_exit_code_4() -> None:
    done = CliRunner().invoke(validate, ["http://127.0.0.1:9", "--only", "health"])
    assert (done.exit_code, "no model to validate" in done.output) == (4, True)


def test_the_option_offers_every_tier() -> None:
    assert tuple(tiers()) == _TIERS
