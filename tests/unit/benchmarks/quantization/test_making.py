"""Folders are made by the command; a refusal is recorded with its words."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks.quantization import making
from benchmarks.quantization.making import make_folder
from benchmarks.quantization.variants import VARIANTS

USAGE = "Usage: paceline quantize\n\nError: --scheme nvfp4: vLLM has no kernel\nfor it.\n"


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that were run: nvfp4 needs `--hardware`, gptq fails."""
    found: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        found.append(command)
        if "nvfp4" in command and "--hardware" not in command:
            return subprocess.CompletedProcess(command, 2, "", USAGE)
        if "gptq" in command:
            return subprocess.CompletedProcess(command, 1, "", "Error: out of memory\n")
        out = Path(command[command.index("--out") + 1])
        out.mkdir()
        (out / "model.safetensors").write_bytes(b"1234")
        provenance: dict[str, Any] = {"made_by": {}, "quantization": {}, "cautions": ["small"]}
        (out / "paceline-provenance.json").write_text(json.dumps(provenance))
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(making.subprocess, "run", run)
    return found


def test_a_refused_scheme_is_made_for_another_machine(
    commands: list[list[str]], tmp_path: Path
) -> None:
    record = make_folder(VARIANTS["nvfp4"], tmp_path, tmp_path / "out", tmp_path / "c.jsonl")
    assert record["refusal"] == "--scheme nvfp4: vLLM has no kernel for it."
    assert record["weights_bytes"] == 4
    assert "--hardware" in commands[1]
    assert "--calibration" not in commands[1]


def test_an_error_is_recorded(commands: list[list[str]], tmp_path: Path) -> None:
    record = make_folder(VARIANTS["gptq"], tmp_path, tmp_path / "out", tmp_path / "c.jsonl")
    assert record["error"] == "out of memory"
    assert "--calibration" in commands[0]
    assert record["refusal"] == ""


def test_a_complete_folder_is_not_made_again(commands: list[list[str]], tmp_path: Path) -> None:
    given = (VARIANTS["llmc-w8a8"], tmp_path, tmp_path / "out", tmp_path / "c.jsonl")
    make_folder(*given)
    assert commands[0][-2:] == ["--backend", "llm-compressor"]
    assert "--hardware" not in commands[0]
    assert make_folder(*given)["cautions"] == ["small"]
    assert len(commands) == 1
