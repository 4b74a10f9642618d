"""What is made for a run, by which commands, and the bytes that a token reads."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from benchmarks.headline import weights
from benchmarks.headline.arms import ModelFolders, parse_arm, parse_arms
from benchmarks.headline.bandwidth import measure_bandwidth, read_bytes
from paceline.foundation.named_models import NamedModel

_COMMANDS = ("quantize", "quality", "smollm2_recipe.prompts")


@pytest.fixture(autouse=True)
def _model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "find_named", lambda name: NamedModel("/target", "/head", name))


def test_what_is_missing_is_made_once_by_commands_that_are_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GPTQ is calibrated, INT8 is not; a rejected folder is served with its verdict."""
    commands: list[list[str]] = []

    def make(words: list[str], *, check: bool) -> subprocess.CompletedProcess[str]:
        commands.append([word for word in words if word in _COMMANDS])
        decision = {"verdict": "rejected", "reasons": ["it is worse"]}
        if "--json" in words:
            found = {"candidates": [{"decision": decision, "fidelity": None}]}
            Path(words[-1]).write_text(json.dumps(found))
            return subprocess.CompletedProcess(words, 1)
        if "--out" in words:
            out = Path(words[words.index("--out") + 1])
            out.mkdir()
            (out / "config.json").write_text("{}")
        else:
            (tmp_path / "smollm2-calibration.jsonl").write_text("")
        return subprocess.CompletedProcess(words, 0)

    monkeypatch.setattr(subprocess, "run", make)
    arms = parse_arms(["vllm", "paceline+w8a8", "vllm+layout+w8a8", "paceline+gptq"])
    model, quality = weights.prepare(arms, tmp_path)
    assert model.quantized == {
        "w8a8": str(tmp_path / "smollm2-w8a8"),
        "gptq": str(tmp_path / "smollm2-gptq"),
    }
    assert commands == [[name] for name in (*_COMMANDS[:2], _COMMANDS[2], *_COMMANDS[:2])]
    assert quality["gptq"]["verdict"] == "rejected"
    assert quality["gptq"]["reasons"] == ["it is worse"]
    assert quality["w8a8"]["made_by"].startswith("paceline quantize smollm2 --scheme w8a8 --out ")
    assert "--calibration" in quality["gptq"]["made_by"]
    assert weights.prepare(arms, tmp_path) == (model, quality)
    assert len(commands) == 5


def test_a_run_ends_if_something_cannot_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: subprocess.CompletedProcess[str] = subprocess.CompletedProcess([], 2)
    monkeypatch.setattr(subprocess, "run", lambda words, check: refused)
    with pytest.raises(SystemExit, match="no w8a8 weights in"):
        weights.prepare([parse_arm("paceline+w8a8")], tmp_path)
    monkeypatch.setattr(weights, "LLAMA_SERVER", tmp_path / "llama-server")
    with pytest.raises(SystemExit, match=r"llama-server is missing; build it: .*NATIVE=1"):
        weights.prepare([parse_arm("llama.cpp")], tmp_path)


def test_a_token_reads_every_weight_but_an_embedding_table_with_its_own_head(
    tmp_path: Path,
) -> None:
    """A tied table of 12 and a matrix of 6 numbers in 2 bytes each; naive serving computes in 4."""
    table, matrix = torch.zeros(4, 3, dtype=torch.bfloat16), torch.zeros(3, 2, dtype=torch.bfloat16)
    tied, untied = tmp_path / "tied", tmp_path / "untied"
    (tmp_path / "x.gguf").write_bytes(b"12345")
    stored = {"model.embed_tokens.weight": table, "matrix.weight": matrix}
    for folder, tensors in ((tied, stored), (untied, {**stored, "lm_head.weight": table.clone()})):
        folder.mkdir()
        save_file(tensors, folder / "model.safetensors")
        model = ModelFolders(str(folder), "/head", {"w8a8": str(untied)}, str(tmp_path / "x.gguf"))
        assert read_bytes(parse_arm("vllm"), model) == 36
        assert read_bytes(parse_arm("naive"), model) == 72
    assert read_bytes(parse_arm("paceline+w8a8"), model) == 36
    assert read_bytes(parse_arm("llama.cpp"), model) == 5


def test_the_bandwidth_of_a_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.headline.bandwidth._PROBE_BYTES", 16 << 20)
    assert 1e8 < measure_bandwidth() < 1e13
