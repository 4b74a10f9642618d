"""Every fault of the study changes what a folder computes, and leaves the sound folder as it is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from benchmarks.quality.defects import DEFECTS, Defect, read_folder, write_faulty
from paceline.workbench.quality.models import load_variant, read_format
from paceline.workbench.quantize.run import Machine, QuantizeOptions, run_quantization
from unit.quantize.tiny import make_tiny, write_prompts

TOKENS = torch.tensor([[5, 77, 300, 1024, 9, 2048]])
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The tiny model, with biases, in the formats that faults are planted in."""
    folder = tmp_path_factory.mktemp("defects")
    tiny = make_tiny(folder / "tiny")
    tensors = load_file(tiny / "model.safetensors")
    for name, tensor in tensors.items():
        if name.endswith(".bias"):
            tensor.normal_(generator=torch.Generator().manual_seed(1))
    save_file(tensors, tiny / "model.safetensors", metadata={"format": "pt"})
    prompts = write_prompts(folder / "prompts.jsonl", 4)
    return {
        "w8a8": quantize(tiny, "w8a8", None, folder / "w8a8"),
        "w4a16": quantize(tiny, "gptq", prompts, folder / "w4a16"),
    }


def quantize(model: Path, scheme: str, prompts: Path | None, out: Path) -> Path:
    run_quantization(
        QuantizeOptions(
            model=str(model), scheme=scheme, out=out, calibration=prompts, num_samples=4,
            max_tokens=32, group_size=None, seed=0,
        ),
        Machine("test", 2**40),
        command=["paceline", "quantize"],
        cautions=(),
        on_progress=lambda *_: None,
        on_caution=lambda _: None,
    )  # fmt: skip
    return out


def logits(folder: Path) -> torch.Tensor:
    model = load_variant(folder, read_format(folder), torch.float32, CPU)
    with torch.inference_mode():
        found: torch.Tensor = model(input_ids=TOKENS, use_cache=False).logits
    return found


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda defect: defect.name)
def test_a_fault_changes_a_copy_only(
    defect: Defect, bases: dict[str, Path], tmp_path: Path
) -> None:
    base = bases[defect.base]
    size = min(defect.sizes[0], read_folder(base).num_layers)  # some sizes are numbers of layers
    before = logits(base)
    planted = []
    for seed in (1, 1):
        folder = write_faulty(defect, base, tmp_path / "faulty", seed, size)
        planted.append(logits(folder))
        assert not (folder / "paceline-provenance.json").exists(), "it would be rejected for it"
    assert not torch.equal(planted[0], before)
    assert torch.equal(planted[0], planted[1])
    assert torch.equal(logits(base), before)


def test_a_step_of_every_group_is_one_scale(bases: dict[str, Path], tmp_path: Path) -> None:
    """Unless the value is the highest of the grid, which stays."""
    [defect] = [one for one in DEFECTS if one.name == "zero point"]
    folder = write_faulty(defect, bases["w4a16"], tmp_path / "faulty", 3, 1.0)
    before, after = read_folder(bases["w4a16"]).tensors, read_folder(folder).tensors
    shifts = 4 * torch.arange(8, dtype=torch.int32)
    steps = set()
    for name in before:
        if name.endswith(".weight_packed"):
            old, new = ((one[name].unsqueeze(-1) >> shifts) & 15 for one in (before, after))
            if not torch.equal(old, new):
                assert torch.equal(new, (old + 1).clamp(max=15))
                steps.add(name.split(".")[2])
    assert len(steps) == 1, "one layer"


def test_a_faulty_folder_is_read_like_the_sound_one(bases: dict[str, Path], tmp_path: Path) -> None:
    folder = write_faulty(DEFECTS[0], bases["w8a8"], tmp_path / "faulty", 1, 0.1)
    assert read_format(folder) == read_format(bases["w8a8"])
    for name in ("tokenizer.json", "chat_template.jinja", "generation_config.json"):
        assert (folder / name).read_bytes() == (bases["w8a8"] / name).read_bytes()
    shutil.rmtree(folder)
    assert json.loads((bases["w8a8"] / "config.json").read_text())["quantization_config"]
