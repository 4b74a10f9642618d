"""The command on tiny models: verdicts, report and resumption."""

from __future__ import annotations

import importlib.util
import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import load_file, save_file

from paceline.foundation.answer_quality.decisions import Limits, Verdict
from paceline.foundation.models.interruption import StopRequest
from paceline.foundation.models.progress import draft_progress
from paceline.foundation.models.values import Sampling
from paceline.foundation.results import files
from paceline.runtime.engine.model_revision import revision_of_folder
from paceline.workbench.quality import baseline, candidate, command
from paceline.workbench.quality.baseline import Baseline
from paceline.workbench.quality.candidate import check_candidate
from paceline.workbench.quality.command import quality
from paceline.workbench.quality.integrity import Target
from paceline.workbench.quality.options import CompareOptions
from paceline.workbench.quality.stored_scores import WorkFolder

FLAGS = ("--max-tokens", "4", "--temperature", "0")


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(quality, [*map(str, arguments), *FLAGS])


@pytest.fixture
def checker(tmp_path: Path) -> Path:
    """Every answer of at least one letter is right."""
    file = tmp_path / "check.py"
    file.write_text("def score(prompt, answer):\n    return 1.0\n")
    return file


def with_changed(model: Path, folder: Path, name: str, value: float | torch.Tensor) -> Path:
    """A copy of a model in which the first 8 numbers of a tensor have this value."""
    shutil.copytree(model, folder)
    tensors = load_file(folder / "model.safetensors")
    tensors[name].view(-1)[:8] = value
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_the_help_has_examples() -> None:
    assert "Examples:" in run("--help").output


def test_the_model_itself_and_its_int8_form_are_approved(
    tiny: Path, w8a8: Path, prompts: Path, checker: Path, tmp_path: Path
) -> None:
    report = tmp_path / "report.json"
    result = run(
        tiny, tiny, w8a8, "--prompts", prompts, "--checker", checker, "--max-score-loss", "0.6",
        "--max-perplexity-increase", "0.6", "--json", report, "--work", tmp_path / "work",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    document = json.loads(report.read_text())
    assert document["kind"] == "paceline quality"
    assert document["errors"] == {"false_rejection": 0.01, "false_approval": 0.05}
    assert [one["format"] for one in document["candidates"]] == ["unquantized", "w8a8-int8"]
    for one in document["candidates"]:
        assert one["decision"]["verdict"] == "approved"
        assert one["fidelity"]["ratio"]["value"] == pytest.approx(1.0, rel=0.05)
    assert "Errors: a sound candidate is rejected" in result.stdout


def test_a_faulty_candidate_is_rejected(tiny: Path, prompts: Path, tmp_path: Path) -> None:
    faulty = tmp_path / "faulty"
    shutil.copytree(tiny, faulty)
    tensors = load_file(faulty / "model.safetensors")
    name = "model.layers.1.mlp.down_proj.weight"
    tensors[name] = tensors[name] * 3 + 0.5 * torch.eye(*tensors[name].shape).to(tensors[name])
    save_file(tensors, faulty / "model.safetensors", metadata={"format": "pt"})
    result = run(tiny, tiny, faulty, "--prompts", prompts)
    assert f"{tiny}: undecided" in result.stdout, result.output
    assert result.exit_code == 1, "the worst verdict decides"
    assert f"{faulty}: rejected (tier 2)" in result.stdout
    assert "times that of plain rounding" in result.stdout


@pytest.mark.parametrize("ends_at_fault", [True, False])
def test_a_rejected_candidate_may_go_without_task_scores(
    tiny: Path, prompts: Path, tmp_path: Path, ends_at_fault: bool
) -> None:
    name = "model.layers.1.mlp.down_proj.weight"
    faulty = with_changed(tiny, tmp_path / "faulty", name, 3.0)
    options = CompareOptions(
        baseline=tiny, draft=None, prompts_file=prompts,
        target=Target("cpu-avx512-vnni", "0.32", "auto"), dtype=torch.float32,
        device=torch.device("cpu"), samplings=(Sampling(0.0),), max_tokens=4,
        max_draft_length=1, limit=None, seed=0, checker=lambda prompt, answer: 1.0, limits=Limits(),
        ends_at_fault=ends_at_fault,
    )  # fmt: skip
    with draft_progress() as progress:
        measured = Baseline(options, WorkFolder(tmp_path / "work"), progress, StopRequest())
        measured.measure()
        report = check_candidate(measured, faulty)
    assert (report.decision.verdict, report.decision.tier) == (Verdict.REJECTED, 2)
    assert (report.outcomes is None) is ends_at_fault


def test_weights_that_are_no_numbers_are_rejected(
    tiny: Path, prompts: Path, tmp_path: Path
) -> None:
    broken = with_changed(tiny, tmp_path / "broken", "model.norm.weight", torch.nan)
    result = run(tiny, broken, "--prompts", prompts)
    assert result.exit_code == 1, result.output
    assert "rejected (tier 1)" in result.stdout
    assert "its probabilities are not finite in 12 of 12 texts" in result.stdout


def test_an_answer_that_the_checker_cannot_read_counts_as_wrong(
    tiny: Path, prompts: Path, tmp_path: Path
) -> None:
    """The checker reads the 12 answers of the baseline and none of the candidate."""
    checker = tmp_path / "check.py"
    checker.write_text(
        "read = []\n"
        "def score(prompt, answer):\n"
        "    read.append(answer)\n"
        "    return 1.0 if len(read) <= 12 else None\n"
    )
    result = run(tiny, tiny, "--prompts", prompts, "--checker", checker)
    assert "1.000 -> 0.000" in result.stdout, result.output


def test_a_baseline_that_computes_no_numbers_approves_nothing(
    tiny: Path, prompts: Path, tmp_path: Path, checker: Path
) -> None:
    broken = with_changed(tiny, tmp_path / "broken", "model.norm.weight", torch.nan)
    result = run(broken, tiny, "--prompts", prompts, "--checker", checker)
    assert result.exit_code == 4, result.output
    assert "not finite in 12 of 12 texts" in result.stderr


def test_without_references_the_verdict_is_undecided(tiny: Path, prompts: Path) -> None:
    result = run(tiny, tiny, "--prompts", prompts)
    assert result.exit_code == 3, result.output
    assert "no prompt has a reference answer" in result.stdout


def test_a_format_that_is_refused_is_not_loaded(
    tiny: Path, w8a8: Path, prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidate, "load_variant", lambda *_: pytest.fail("it was loaded"))
    result = run(tiny, w8a8, "--prompts", prompts, "--hardware", "gpu-blackwell")
    assert result.exit_code == 1, result.output
    assert "rejected (tier 1)" in result.stdout


def test_a_repeated_command_continues_with_what_is_on_disk(
    tiny: Path, w8a8: Path, prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = (tiny, w8a8, "--prompts", prompts, "--work", tmp_path / "work")
    first = run(*arguments)

    def refuse(*_: Any) -> None:
        pytest.fail("a model was loaded again")

    monkeypatch.setattr(baseline, "load_model", refuse)
    monkeypatch.setattr(candidate, "load_variant", refuse)
    assert run(*arguments).stdout == first.stdout


def test_a_candidate_that_was_changed_in_a_corner_is_computed_again(
    tiny: Path, prompts: Path, tmp_path: Path
) -> None:
    """The changed numbers are at the start of a tensor, where no sample of the weights is taken."""
    name = "model.layers.1.mlp.up_proj.weight"
    folder = tmp_path / "candidate"
    with_changed(tiny, folder, name, load_file(tiny / "model.safetensors")[name].view(-1)[:8])
    sampled = revision_of_folder(folder)
    arguments = (tiny, folder, "--prompts", prompts, "--work", tmp_path / "work")
    first = run(*arguments)
    shutil.rmtree(folder)
    with_changed(tiny, folder, name, torch.nan)
    assert revision_of_folder(folder) == sampled
    second = run(*arguments)
    assert "undecided" in first.stdout, first.output
    assert "rejected (tier 1)" in second.stdout, second.output


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (RuntimeError("CUDA out of memory"), "memory ran out: CUDA out of memory"),
        (ValueError("7"), "unexpected ValueError: 7"),
        (OSError(28, "No space left on device"), "No space left on device"),
    ],
)
def test_a_crash_is_no_verdict(
    tiny: Path,
    prompts: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    message: str,
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def fail(_: Any) -> None:
        raise error

    monkeypatch.setattr(command, "_read_options", fail)
    result = run(tiny, tiny, "--prompts", prompts)
    assert result.exit_code == 4
    assert message in result.stderr
    assert "Traceback" not in result.output
    is_unexpected = isinstance(error, ValueError)
    tracebacks = [path.read_text() for path in tmp_path.glob("paceline-quality-*.txt")]
    assert len(tracebacks) == is_unexpected, "its traceback is in a file"
    assert all("ValueError: 7" in one for one in tracebacks)


def test_a_report_that_cannot_be_written_is_no_verdict(
    tiny: Path, prompts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write_document", fail)
    result = run(tiny, tiny, "--prompts", prompts, "--json", tmp_path / "report.json")
    assert result.exit_code == 4
    assert f"{tiny}: undecided" in result.stdout, "the lines are printed before"


def test_without_torch_there_is_no_verdict(
    tiny: Path, prompts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    result = run(tiny, tiny, "--prompts", prompts)
    assert result.exit_code == 4
    assert "paceline quality needs torch and transformers" in result.stderr


def test_acceptance_is_measured_with_each_target(tiny: Path, w8a8: Path, prompts: Path) -> None:
    result = run(tiny, w8a8, "--prompts", prompts, "--draft", tiny)
    assert "acceptance, greedy: 1.000 -> " in result.stdout, result.output
    assert "no part of the verdict" in result.stdout


def test_a_verdict_does_not_depend_on_acceptance(tiny: Path, prompts: Path, tmp_path: Path) -> None:
    """A faulty candidate ends each answer at once, so that nothing is drafted for it."""
    faulty = tmp_path / "faulty"
    shutil.copytree(tiny, faulty)
    tensors = load_file(faulty / "model.safetensors")
    embedded = tensors["model.embed_tokens.weight"]  # of the output, too
    embedded[:, 0] = 5.0
    embedded[2, 0] = 10.0  # the token that ends an answer
    save_file(tensors, faulty / "model.safetensors", metadata={"format": "pt"})
    report = tmp_path / "report.json"
    result = run(tiny, faulty, "--prompts", prompts, "--draft", tiny, "--json", report)
    assert result.exit_code == 1, result.output
    assert "rejected (tier 2)" in result.stdout
    assert "acceptance was not compared: 0 prompts of different conversations" in result.stdout
    [found] = json.loads(report.read_text())["candidates"]
    assert found["acceptance"] == []
    assert "at least 5 are needed" in found["acceptance_lacking"]


def test_a_quantized_baseline_and_a_missing_model_are_not_compared(
    tiny: Path, w8a8: Path, prompts: Path, tmp_path: Path
) -> None:
    for arguments, message in (
        ((w8a8, tiny), "which is quantized; give the unquantized model"),
        ((tiny, tmp_path), "has no config.json"),
    ):
        result = run(*arguments, "--prompts", prompts)
        assert result.exit_code == 4
        assert message in result.stderr
