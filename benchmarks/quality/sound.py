"""Sound models of the study, as folders: formats, group sizes and calibrations that differ."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.quality.defects import copy_tokenizer
from benchmarks.quality.prompts import write_prompts
from paceline import demo
from paceline.foundation.models.models import load_model
from paceline.workbench.quantize.run import Machine, QuantizeOptions, run_quantization

NUM_CALIBRATIONS = 4
GROUP_SIZES = (32, 64, 128)


@dataclass(frozen=True, slots=True)
class SoundModel:
    """How a sound folder is made."""

    scheme: str
    """Of `paceline quantize`, or `unquantized`."""
    group_size: int | None = None
    calibration: int | None = None
    """Which of the sets of calibration prompts."""

    @property
    def name(self) -> str:
        """Unique, and the name of its folder."""
        parts = [self.scheme]
        if self.group_size is not None:
            parts += [f"groups-of-{self.group_size}", f"calibration-{self.calibration}"]
        return "-".join(parts)


W8A8 = SoundModel("w8a8")
W4A16 = SoundModel("gptq", GROUP_SIZES[0], 0)
"""With `W8A8`, what faults are planted in."""
FIXED = (SoundModel("unquantized"), W8A8, SoundModel("fp8"))
VARIED = tuple(
    SoundModel(scheme, group_size, calibration)
    for scheme in ("gptq", "awq")
    for group_size in GROUP_SIZES
    for calibration in range(NUM_CALIBRATIONS)
)


def models_of(seed: int) -> list[SoundModel]:
    """What is checked with a seed: the fixed ones, and one each of GPTQ and AWQ in turn."""
    half = len(VARIED) // 2
    return [*FIXED, VARIED[seed % half], VARIED[half + seed % half]]


def make_folder(model: SoundModel, work: Path, calibrations: list[list[dict[str, Any]]]) -> Path:
    """The folder of a model within `work`, made once. `calibrations` are the sets of prompts."""
    out = work / "sound" / model.name
    if out.exists():
        return out
    out.parent.mkdir(parents=True, exist_ok=True)
    if model.scheme == "unquantized":
        return _stored_in_pieces(out)
    prompts = None
    if model.calibration is not None:
        path = work / f"calibration-{model.calibration}.jsonl"
        prompts = write_prompts(path, calibrations[model.calibration])
    run_quantization(
        QuantizeOptions(
            model=str(demo.target_path()), scheme=model.scheme, out=out, calibration=prompts,
            num_samples=16, max_tokens=128, seed=0, group_size=model.group_size,
        ),
        Machine("this", 8 * 1024**3), command=["paceline", "quantize"], cautions=(),
        on_progress=lambda *_: None, on_caution=lambda _: None,
    )  # fmt: skip
    return out


def _stored_in_pieces(out: Path) -> Path:
    """The target itself in several files."""
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    load_model(demo.target_path(), torch.bfloat16, torch.device("cpu")).save_pretrained(
        partial, max_shard_size="8MB"
    )
    copy_tokenizer(demo.target_path(), partial)
    partial.rename(out)
    return out
