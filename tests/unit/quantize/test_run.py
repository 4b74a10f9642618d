"""Quantizing a small model in every scheme, and continuing after an interruption."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from paceline.foundation.compatibility.stored_formats import stored_format
from paceline.foundation.quantized.errors import QuantizeError, WrongUsage
from paceline.foundation.quantized.schemes import SCHEMES
from paceline.workbench.quantize.resources import Needs
from paceline.workbench.quantize.run import Machine, QuantizeOptions, run_quantization
from unit.quantize.tiny import make_tiny

ROOMY = Machine("cpu-amx", 1 << 40)


def options(
    model: Path, out: Path, scheme: str, calibration: Path | None = None, **other: Any
) -> QuantizeOptions:
    given: dict[str, Any] = {
        "num_samples": 4, "max_tokens": 64, "group_size": None, "seed": 0, **other
    }  # fmt: skip
    return QuantizeOptions(str(model), scheme, out, calibration, **given)


def run(
    asked: QuantizeOptions, machine: Machine = ROOMY, on_progress: Any = None
) -> dict[str, Any]:
    return run_quantization(
        asked,
        machine,
        command=["paceline", "quantize", asked.model],
        cautions=["from the gate"],
        on_progress=on_progress or (lambda *_: None),
        on_caution=lambda _: None,
    )


@pytest.mark.parametrize("scheme", list(SCHEMES))
def test_every_scheme_writes_a_complete_folder(
    tiny: Path, prompts: Path, tmp_path: Path, scheme: str
) -> None:
    out = tmp_path / "out"
    needs = SCHEMES[scheme].needs_calibration
    document = run(options(tiny, out, scheme, prompts if needs else None))
    config = json.loads((out / "config.json").read_text())
    assert stored_format(config) == SCHEMES[scheme].format
    assert (out / "chat_template.jinja").read_bytes() == (tiny / "chat_template.jinja").read_bytes()
    index = json.loads((out / "model.safetensors.index.json").read_text())["weight_map"]
    files = sorted(set(index.values()))
    assert files == [f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)]
    for name, file in index.items():
        with safe_open(out / file, "pt") as opened:
            assert name in opened.keys()  # noqa: SIM118 - not a mapping
    assert "model.embed_tokens.weight" in index
    assert "model.layers.1.self_attn.q_proj.bias" in index
    assert json.loads((out / "paceline-provenance.json").read_text()) == document
    assert document["quantization"]["scheme"] == scheme
    grouped = SCHEMES[scheme].has_groups
    assert document["quantization"]["group_size"] == (32 if grouped else None)
    assert document["quantization"]["ignored_layers"] == ["lm_head"]
    assert (document["quantization"]["calibration"] is not None) == needs
    assert document["made_by"]["backend"] == "own"
    assert document["cautions"][0] == "from the gate"
    recorded = document["output"]["files"]
    assert set(recorded) == {path.name for path in out.iterdir()} - {"paceline-provenance.json"}
    for name, entry in recorded.items():
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == entry["sha256"]
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize("scheme", ["w8a8", "awq", "gptq", "smoothquant"])
def test_an_interrupted_run_continues_and_writes_the_same(
    tiny: Path, prompts: Path, tmp_path: Path, scheme: str
) -> None:
    calibration = prompts if SCHEMES[scheme].needs_calibration else None
    whole, resumed = tmp_path / "whole", tmp_path / "resumed"
    run(options(tiny, whole, scheme, calibration))

    def stop(what: str, done: int, total: int) -> None:
        if what == "quantizing layers" and done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(options(tiny, resumed, scheme, calibration), on_progress=stop)
    assert not resumed.exists()
    first = tmp_path / ".resumed.partial" / "model-00001-of-00003.safetensors"
    written_ns = first.stat().st_mtime_ns
    run(options(tiny, resumed, scheme, calibration))
    for path in whole.glob("*.safetensors"):
        assert (resumed / path.name).read_bytes() == path.read_bytes()
    assert (resumed / first.name).stat().st_mtime_ns == written_ns


def test_a_continued_run_needs_disk_for_what_is_missing_only(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk had room for the whole result, and a first run filled a part of it."""
    whole = sum(path.stat().st_size for path in tiny.iterdir())

    def stop(what: str, done: int, total: int) -> None:
        if what == "quantizing layers" and done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(options(tiny, tmp_path / "out", "w8a8"), on_progress=stop)
    partial = tmp_path / ".out.partial"
    left = whole - sum(path.stat().st_size for path in partial.iterdir())
    needed = Needs(disk_bytes=whole, memory_bytes=0)
    monkeypatch.setattr("paceline.workbench.quantize.run.estimate_needs", lambda _: needed)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=left))
    run(options(tiny, tmp_path / "out", "w8a8"))
    with pytest.raises(QuantizeError, match="on the disk of --out"):
        run(options(tiny, tmp_path / "other", "w8a8"))


def test_calibration_decides_what_is_stored(tiny: Path, prompts: Path, tmp_path: Path) -> None:
    """GPTQ on two sets of samples gives different weights; the same set gives the same."""
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        run(options(tiny, tmp_path / name, "gptq", prompts, num_samples=1, seed=seed))
    layer = "model-00001-of-00003.safetensors"
    a, b, c = (load_file(tmp_path / name / layer) for name in "abc")
    name = "model.layers.0.mlp.up_proj.weight_packed"
    assert a[name].equal(b[name])
    assert not a[name].equal(c[name])


@pytest.mark.parametrize("scheme", ["w8a8", "gptq"])
def test_stored_tensors_that_no_layer_loads_are_kept(
    tiny: Path, prompts: Path, tmp_path: Path, scheme: str
) -> None:
    """Older checkpoints store the frequencies of the rotary embedding."""
    model = tmp_path / "model"
    shutil.copytree(tiny, model)
    name = "model.layers.0.self_attn.rotary_emb.inv_freq"
    frequencies = torch.arange(8, dtype=torch.float32)
    weights = model / "model.safetensors"
    save_file(load_file(weights) | {name: frequencies}, weights, metadata={"format": "pt"})
    calibration = prompts if SCHEMES[scheme].needs_calibration else None
    run(options(model, tmp_path / "out", scheme, calibration, num_samples=1))
    made = load_file(tmp_path / "out" / "model-00001-of-00003.safetensors")
    assert made[name].equal(frequencies)


def test_calibration_that_a_scheme_does_not_use_is_checked_and_reported(
    tiny: Path, prompts: Path, tmp_path: Path
) -> None:
    document = run(options(tiny, tmp_path / "out", "w8a8", prompts))
    assert any("--calibration is not used" in text for text in document["cautions"])
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{}\n")
    with pytest.raises(WrongUsage, match="line 1"):
        run(options(tiny, tmp_path / "other", "w8a8", bad))


def test_an_unknown_architecture_is_refused(tmp_path: Path) -> None:
    model = make_tiny(tmp_path / "m")
    config = json.loads((model / "config.json").read_text())
    config["architectures"] = ["SomethingForCausalLM"]
    (model / "config.json").write_text(json.dumps(config))
    with pytest.raises(QuantizeError, match="SomethingForCausalLM"):
        run(options(model, tmp_path / "out", "w8a8"))


def test_a_model_that_lacks_layers_is_refused(tiny: Path, tmp_path: Path) -> None:
    """Its folder lacks the last layer, or names all of them otherwise."""
    tensors = load_file(tiny / "model.safetensors")
    short = {name: tensor for name, tensor in tensors.items() if "layers.1." not in name}
    renamed = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
    for number, kept in ((1, short), (0, renamed)):
        model = tmp_path / f"model{number}"
        shutil.copytree(tiny, model)
        save_file(kept, model / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(QuantizeError, match=f"layer {number} has no mlp.down_proj.weight"):
            run(options(model, tmp_path / "out", "w8a8"))


@pytest.mark.parametrize("name", ["model.layers.1.mlp.up_proj.weight", "model.embed_tokens.weight"])
@pytest.mark.parametrize("scheme", ["w8a8", "gptq"])
def test_weights_that_are_no_numbers_are_refused(
    tiny: Path, prompts: Path, tmp_path: Path, scheme: str, name: str
) -> None:
    """NaN would be rounded to an integer, and nothing would show it any more."""
    model = tmp_path / "model"
    shutil.copytree(tiny, model)
    tensors = load_file(model / "model.safetensors")
    tensors[name][-1, 5] = torch.nan
    save_file(tensors, model / "model.safetensors", metadata={"format": "pt"})
    calibration = prompts if SCHEMES[scheme].needs_calibration else None
    with pytest.raises(QuantizeError, match=f"{name} of the source has values that are no finite"):
        run(options(model, tmp_path / "out", scheme, calibration, num_samples=1))


def test_a_machine_without_memory_is_refused_before_anything_is_written(
    tiny: Path, tmp_path: Path
) -> None:
    with pytest.raises(QuantizeError, match="of memory"):
        run(options(tiny, tmp_path / "out", "w8a8"), Machine("cpu-amx", 1000))
    assert list(tmp_path.iterdir()) == []
