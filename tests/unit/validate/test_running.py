"""A whole validation against a mock server: report, signature, interruption, resumption."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from paceline.operations.validate.report.document import Verdict
from paceline.operations.validate.report.reading import ReportUnreadable, read_json, read_report
from paceline.operations.validate.report.signing import check_signature
from paceline.operations.validate.running import Run
from paceline.operations.validate.settings import ValidationSettings
from paceline.operations.validate.target.target import Identity
from paceline.operations.validate.values import CheckResult, Status, ValidationError
from paceline.testing.mock_vllm import MockVllm
from unit.validate.deployments import KEY, MOCKS, scored_prompts

ONLY = ("health", "models", "usage")


@pytest_asyncio.fixture
async def mock() -> AsyncIterator[MockVllm]:
    async with MockVllm(MOCKS["gateway"]) as server:
        yield server


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    file = tmp_path / "key.pem"
    key = Ed25519PrivateKey.generate()
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return file


def settings(mock: MockVllm, tmp_path: Path, **changes: object) -> ValidationSettings:
    values: dict[str, object] = {
        "url": mock.url, "admin_url": None, "model": None, "tier": "local", "only": ONLY,
        "required": (), "is_shared": False, "allows_drain": False, "audit_seconds": 1.0,
        "prompts_file": None, "baseline": None, "api_key": "secret", "baseline_api_key": None,
        "admin_key": None,
        "json_file": tmp_path / "report.json", "html_file": None, "key_file": None,
        "previous_file": None, "resumes": False,
    }  # fmt: skip
    return ValidationSettings(**{**values, **changes})  # type: ignore[arg-type]


async def test_the_report_is_signed_and_compared_and_holds_no_key(
    mock: MockVllm, tmp_path: Path, key_file: Path
) -> None:
    first = Run(settings(mock, tmp_path))
    await first.carry_out()
    assert first.write().verdict is Verdict.PASSED
    again = settings(
        mock,
        tmp_path,
        previous_file=tmp_path / "report.json",
        html_file=tmp_path / "report.html",
        key_file=key_file,
    )
    second = Run(again)
    await second.carry_out()
    written = second.write()
    values = read_json(tmp_path / "report.json")
    assert check_signature(values)
    assert written == read_report(tmp_path / "report.json")
    assert written.comparison is not None
    assert written.comparison.worse == written.comparison.better == ()
    assert "secret" not in json.dumps(values)
    assert "The deployment passed." in (tmp_path / "report.html").read_text()


async def test_an_interrupted_validation_leaves_a_report_that_is_resumed(
    mock: MockVllm, tmp_path: Path, key_file: Path
) -> None:
    def stop(result: CheckResult) -> None:
        if result.id == "models":
            task.cancel()

    partial = Run(settings(mock, tmp_path, key_file=key_file), on_result=stop)
    task = asyncio.create_task(partial.carry_out())
    with pytest.raises(asyncio.CancelledError):
        await task
    left = read_report(tmp_path / "report.json")
    assert check_signature(read_json(tmp_path / "report.json"))
    assert left.verdict is Verdict.INCOMPLETE
    assert [check.is_final for check in left.checks] == [True, True, False]

    ran: list[str] = []
    rest = Run(
        settings(mock, tmp_path, key_file=key_file, resumes=True),
        on_result=lambda result: ran.append(result.id),
    )
    await rest.carry_out()
    whole = rest.write()
    assert ran == ["usage"]
    assert whole.verdict is Verdict.PASSED
    assert whole.checks[:2] == left.checks[:2]


async def test_a_report_of_other_settings_is_not_resumed(mock: MockVllm, tmp_path: Path) -> None:
    first = Run(settings(mock, tmp_path))
    await first.carry_out()
    first.write()
    other = Run(settings(mock, tmp_path, is_shared=True, resumes=True))
    with pytest.raises(ValidationError, match="has another settings"):
        await other.carry_out()


async def test_prompts_that_changed_under_their_name_are_not_resumed(
    mock: MockVllm, tmp_path: Path
) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text('{"prompt": "one"}\n')
    first = Run(settings(mock, tmp_path, prompts_file=str(prompts)))
    await first.carry_out()
    prompts.write_text('{"prompt": "two"}\n')
    other = Run(settings(mock, tmp_path, prompts_file=str(prompts), resumes=True))
    with pytest.raises(ValidationError, match="has another settings"):
        await other.carry_out()


@pytest.mark.parametrize(
    ("name", "value"), [("max_model_len", 7), ("version", "0.0"), ("admin_url", "http://h")]
)
async def test_a_report_of_another_server_is_not_resumed(
    mock: MockVllm, tmp_path: Path, name: str, value: object
) -> None:
    first = Run(settings(mock, tmp_path))
    await first.carry_out()
    file = tmp_path / "report.json"
    values = json.loads(file.read_text())
    values["server"][name] = value
    file.write_text(json.dumps(values))
    other = Run(settings(mock, tmp_path, resumes=True))
    with pytest.raises(ValidationError, match=f"has another {name}"):
        await other.carry_out()


async def test_an_admin_url_that_is_added_repeats_what_was_skipped(
    mock: MockVllm, tmp_path: Path
) -> None:
    only = ("health", "quality")
    first = Run(settings(mock, tmp_path, only=only))
    await first.carry_out()
    ran: list[str] = []
    rest = Run(
        settings(mock, tmp_path, only=only, admin_url=mock.url, resumes=True),
        on_result=lambda result: ran.append(result.id),
    )
    await rest.carry_out()
    assert ran == ["quality"]
    assert [part.checks for part in rest.write().parts] == [("health", "quality"), ("quality",)]


async def test_a_skipped_check_that_is_required_only_now_runs_again(
    mock: MockVllm, tmp_path: Path
) -> None:
    """`load-errors` is left out of a shared deployment unless it is named."""
    only = ("health", "load-errors")
    first = Run(settings(mock, tmp_path, only=only, is_shared=True))
    await first.carry_out()
    first.write()
    file = tmp_path / "report.json"
    values = json.loads(file.read_text())
    values["required"] = ["health"]
    values["checks"][1]["status"] = "SKIP"
    file.write_text(json.dumps(values))
    ran: list[str] = []
    rest = Run(
        settings(mock, tmp_path, only=only, is_shared=True, resumes=True),
        on_result=lambda result: ran.append(result.id),
    )
    await rest.carry_out()
    assert ran == ["load-errors"]


async def test_what_utf_8_cannot_encode_is_replaced_in_the_signed_report_and_the_page(
    mock: MockVllm, tmp_path: Path, key_file: Path
) -> None:
    """JSON may hold lone surrogates: a server may have one in its model's name."""
    files = {"html_file": tmp_path / "report.html", "key_file": key_file}
    run = Run(settings(mock, tmp_path, only=("health",), **files))
    await run.carry_out()
    run._identity = Identity("vllm", "m\ud800", None, None)
    assert run.write().server.model == "m\N{REPLACEMENT CHARACTER}"
    assert check_signature(read_json(tmp_path / "report.json"))


async def test_a_signed_validation_does_not_resume_an_unsigned_report(
    mock: MockVllm, tmp_path: Path, key_file: Path
) -> None:
    first = Run(settings(mock, tmp_path))
    await first.carry_out()
    first.write()
    with pytest.raises(ReportUnreadable, match=r"--resume with --sign: .* is not signed"):
        Run(settings(mock, tmp_path, key_file=key_file, resumes=True))


async def test_a_required_check_that_is_skipped_fails_the_validation(
    mock: MockVllm, tmp_path: Path
) -> None:
    run = Run(settings(mock, tmp_path, only=("quality",), required=("quality",)))
    await run.carry_out()
    document = run.write()
    assert document.checks[0].status is Status.SKIP
    assert document.verdict is Verdict.FAILED


async def test_a_check_that_only_names_is_required(mock: MockVllm, tmp_path: Path) -> None:
    run = Run(settings(mock, tmp_path, only=("health", "quality")))
    await run.carry_out()
    document = run.write()
    assert document.required == ("health", "quality")
    assert document.verdict is Verdict.FAILED


async def test_the_baseline_and_its_prompts_decide_about_quality(
    mock: MockVllm, tmp_path: Path
) -> None:
    prompts = tmp_path / "prompts.jsonl"
    rows = [
        {"prompt": one.fields["prompt"], "max_tokens": 6, "reference": one.reference}
        for one in await scored_prompts(mock.url, 300)
    ]
    prompts.write_text("".join(json.dumps(row) + "\n" for row in rows))
    async with MockVllm(MOCKS["plain"]) as baseline:
        changes = {
            "only": ("quality",), "prompts_file": str(prompts), "baseline": baseline.url,
            "baseline_api_key": KEY,
        }  # fmt: skip
        run = Run(settings(mock, tmp_path, **changes))
        await run.carry_out()
    document = run.write()
    assert document.verdict is Verdict.PASSED, document.checks[0].reason
    assert document.config["baseline"] == baseline.url
    assert KEY not in (tmp_path / "report.json").read_text()


async def test_a_server_without_the_model_cannot_be_validated(
    mock: MockVllm, tmp_path: Path
) -> None:
    run = Run(settings(mock, tmp_path, model="another"))
    with pytest.raises(ValidationError, match="lists no model 'another'"):
        await run.carry_out()
    assert not (tmp_path / "report.json").exists()
