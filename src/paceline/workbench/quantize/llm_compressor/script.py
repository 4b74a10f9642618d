"""Run llm-compressor on one job. Executed by the interpreter of its environment, not imported.

    python script.py JOB.json

The job has `model`, `out`, `scheme`, `group_size`, `ignore`, `seed` and `samples` (token ids, or
null). Each line of the original stdout is one JSON object: `{"step": …}`, at last `{"versions": …}`
or `{"error": …}`. Everything that libraries print goes to stderr.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import sys
import traceback
from collections.abc import Callable
from typing import Any

_PRESETS = {
    "awq": "W4A16",
    "gptq": "W4A16",
    "w8a8": "W8A8",
    "smoothquant": "W8A8",
    "fp8": "FP8_DYNAMIC",
    "nvfp4": "NVFP4A16",
}
_SMOOTHING_STRENGTH = 0.8
"""As in llm-compressor's own W8A8 examples for Llama."""


def main() -> int:
    """Quantize; 0 on success."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def report(**values: object) -> None:
        answers.write(json.dumps(values) + "\n")
        answers.flush()

    with open(sys.argv[1], encoding="utf-8") as file:
        job = json.load(file)
    try:
        report(step="loading")
        quantize(job, report)
    except Exception as error:  # noqa: BLE001 - the parent reports it
        traceback.print_exc()
        report(error=f"{type(error).__name__}: {error}")
        return 1
    names = ("llmcompressor", "compressed-tensors", "torch", "transformers")
    found = {name: importlib.metadata.version(name) for name in names}
    report(versions={"python": platform.python_version(), **found})
    return 0


def quantize(job: dict[str, Any], report: Callable[..., None]) -> None:
    """Load the model, apply the recipe, save the folder."""
    import torch

    datasets: Any = importlib.import_module("datasets")
    llmcompressor: Any = importlib.import_module("llmcompressor")
    transformers: Any = importlib.import_module("transformers")
    if not torch.accelerator.is_available():
        # AWQ pins its cache for a copy to a device; without a device, that raises.
        torch.Tensor.pin_memory = lambda tensor, device=None: tensor  # type: ignore
    torch.manual_seed(job["seed"])
    model = transformers.AutoModelForCausalLM.from_pretrained(job["model"], dtype="auto")
    given: dict[str, Any] = {}
    if job["samples"] is not None:
        rows = job["samples"]
        given = {
            "dataset": datasets.Dataset.from_dict(
                {"input_ids": rows, "attention_mask": [[1] * len(row) for row in rows]}
            ),
            "num_calibration_samples": len(rows),
            "max_seq_length": max(map(len, rows)),
            "shuffle_calibration_samples": False,
        }
    report(step="quantizing")
    llmcompressor.oneshot(model=model, recipe=recipe(job), **given)
    report(step="saving")
    model.save_pretrained(job["out"], save_compressed=True)


def recipe(job: dict[str, Any]) -> list[Any]:
    """Return the modifiers of the scheme."""
    quantization: Any = importlib.import_module("compressed_tensors.quantization")
    modifiers: Any = importlib.import_module("llmcompressor.modifiers.quantization")
    scheme = quantization.preset_name_to_scheme(_PRESETS[job["scheme"]], ["Linear"])
    if job["group_size"] is not None:
        scheme.weights.group_size = job["group_size"]
    groups = {"config_groups": {"group_0": scheme}, "ignore": job["ignore"]}
    if job["scheme"] == "gptq":
        return [modifiers.GPTQModifier(**groups)]
    if job["scheme"] == "awq":
        awq: Any = importlib.import_module("llmcompressor.modifiers.transform.awq")
        return [awq.AWQModifier(), modifiers.QuantizationModifier(**groups)]
    if job["scheme"] == "smoothquant":
        smoothquant: Any = importlib.import_module("llmcompressor.modifiers.transform.smoothquant")
        smooth = smoothquant.SmoothQuantModifier(smoothing_strength=_SMOOTHING_STRENGTH)
        return [smooth, modifiers.QuantizationModifier(**groups)]
    return [modifiers.QuantizationModifier(**groups)]


if __name__ == "__main__":
    sys.exit(main())
