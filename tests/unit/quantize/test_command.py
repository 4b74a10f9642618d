"""The command: what it prints, and how it fails."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from safetensors import SafetensorError

from paceline.runtime.engine.launch import hardware
from paceline.workbench.quantize import run
from paceline.workbench.quantize.command import quantize
from paceline.workbench.quantize.own import backend


def test_the_help_has_examples_and_all_schemes() -> None:
    text = CliRunner().invoke(quantize, ["--help"]).output
    assert "Examples:" in text
    for name in ("awq", "gptq", "w8a8", "smoothquant", "fp8", "nvfp4"):
        assert f"{name}:" in " ".join(text.split())


def test_a_folder_is_written_and_reported(tiny: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = CliRunner().invoke(quantize, [str(tiny), "--scheme", "w8a8", "--out", str(out)])
    assert result.exit_code == 0, result.output
    assert f"{out}: round to nearest" in result.stdout
    assert "below 13B" in result.stderr
    assert json.loads((out / "paceline-provenance.json").read_text())["schema_version"] == 1


def test_a_format_that_the_named_hardware_cannot_serve_is_wrong_usage(
    tiny: Path, tmp_path: Path
) -> None:
    result = CliRunner().invoke(
        quantize,
        [
            str(tiny),
            "--scheme",
            "w8a8",
            "--hardware",
            "gpu-blackwell",
            "--out",
            str(tmp_path / "o"),
        ],
    )
    assert result.exit_code == 2
    assert "Use fp8 or awq instead" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_format_that_this_machine_cannot_serve_is_refused_before_the_model_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    this = dataclasses.replace(hardware.read_hardware(), device="cpu", vllm_release="0.32.0")
    monkeypatch.setattr(hardware, "read_hardware", lambda: this)
    out = tmp_path / "out"
    asked = [str(tmp_path / "no-such-model"), "--scheme", "nvfp4", "--out", str(out)]
    result = CliRunner().invoke(quantize, asked)
    assert result.exit_code == 2
    assert "vLLM 0.32.0 has no kernel for it. Use w8a8 or awq instead" in result.stderr
    assert "name it with --hardware" in result.stderr
    other = CliRunner().invoke(quantize, [*asked, "--hardware", "gpu-blackwell"])
    assert "neither a folder nor" in other.stderr


def test_an_existing_folder_and_a_missing_model_are_wrong_usage(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text("1")
    for model, out, message in (
        (str(tiny), tmp_path / "full", "which exists"),
        (str(tmp_path / "gone"), tmp_path / "out", "neither a folder nor"),
    ):
        result = CliRunner().invoke(quantize, [model, "--scheme", "fp8", "--out", str(out)])
        assert result.exit_code == 2
        assert message in result.stderr


def test_a_folder_that_cannot_be_made_is_wrong_usage(tiny: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    out = tmp_path / "file" / "out"
    result = CliRunner().invoke(quantize, [str(tiny), "--scheme", "w8a8", "--out", str(out)])
    assert (result.exit_code, "no folder to write to" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    "error", [OSError(28, "No space left on device"), SafetensorError("I/O error: no space")]
)
def test_a_disk_that_fills_ends_in_one_sentence(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fill(*_: object) -> None:
        raise error

    monkeypatch.setattr(backend, "write_shard", fill)
    out = tmp_path / "out"
    result = CliRunner().invoke(quantize, [str(tiny), "--scheme", "w8a8", "--out", str(out)])
    assert isinstance(result.exception, SystemExit)
    assert (result.exit_code, "space" in result.stderr) == (1, True)
    assert "the same command continues" in result.stderr
    assert not out.exists()


@pytest.mark.parametrize(
    ("backend_name", "then"), [("own", "continues where it was"), ("llm-compressor", "begins anew")]
)
def test_an_interruption_says_what_the_same_command_does(
    tiny: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    backend_name: str,
    then: str,
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run, "run_quantization", interrupt)
    options = ("--scheme", "w8a8", "--out", str(tmp_path / "out"), "--backend", backend_name)
    result = CliRunner().invoke(quantize, [str(tiny), *options])
    assert result.exit_code == 130
    assert f"the same command {then}" in result.stderr


def test_a_seed_that_torch_does_not_take_is_wrong_usage(tiny: Path, tmp_path: Path) -> None:
    options = ("--scheme", "awq", "--out", str(tmp_path / "out"), "--seed", str(2**63))
    result = CliRunner().invoke(quantize, [str(tiny), *options])
    assert (result.exit_code, "9223372036854775807" in result.stderr) == (2, True)
