"""Refuse number formats that this machine cannot serve, before anything is loaded.

Reads the configuration of local models and the user's vLLM arguments, and consults the table of
`paceline.foundation.compatibility.number_formats`. Models named as on Hugging Face are left to
vLLM.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from paceline.foundation.compatibility.experts import has_experts
from paceline.foundation.compatibility.hardware_classes import HardwareClass
from paceline.foundation.compatibility.number_formats import FormatVerdict, find_row, judge_format
from paceline.foundation.compatibility.quantization_config import (
    UnreadableModelFile,
    find_quantization,
)
from paceline.foundation.compatibility.stored_formats import UNQUANTIZED, stored_format
from paceline.foundation.models.model_folder import ModelUnfit
from paceline.runtime.engine.launch.command import last_value
from paceline.runtime.engine.launch.hardware import Hardware

DTYPE_ALIASES = {"float": "float32", "half": "float16"}
"""Other names that vLLM has for a dtype."""
_MIXED_GPUS = "the visible GPUs are of different classes, and one of them cannot serve this"


@dataclass(frozen=True, slots=True)
class ServedFormats:
    """What the formats of an engine's models require of it."""

    kernel_dtypes: tuple[str, ...]
    """The dtypes that the kernels of target and draft are compiled for; empty: any."""
    expected_kernels: tuple[str, ...]
    """Kernels, one of which should compute the target's linear layers; empty: not known."""
    reasons: tuple[str, ...]
    """What the operator should know, one sentence each."""


def choose_formats(
    hardware: Hardware,
    *,
    target: str,
    draft: str | None,
    dtype: str,
    kv_cache_dtype: str,
    vllm_args: tuple[str, ...],
) -> ServedFormats:
    """Return what the formats require. Raises ModelUnfit for one that this machine cannot serve.

    `dtype` and `kv_cache_dtype` are the settings, which `vllm_args` override; `draft` is the folder
    or name of a draft model, None without one. If the visible GPUs are of different classes, it is
    not known which of them computes what: a format that one of them cannot serve is a caution.
    """
    given = last_value(vllm_args, "--dtype") or dtype
    effective = DTYPE_ALIASES.get(given, given)
    kv_format = last_value(vllm_args, "--kv-cache-dtype") or kv_cache_dtype
    release = hardware.vllm_release or "of an unknown release"
    classes = hardware.hardware_classes
    weights: list[FormatVerdict] = []
    reasons: list[str] = []
    for hardware_class in classes:
        judged = [
            (model, _judge_weights(hardware_class, release, model, effective, model_args))
            for model, model_args in ((target, vllm_args), (draft, ()))
            if model is not None
        ]
        weights += [verdict for _, verdict in judged]
        kv_cache = judge_format("kv_cache", kv_format, hardware_class, release)
        for where, verdict in (*judged, ("engine.kv_cache_dtype", kv_cache)):
            if verdict.refusal and len(classes) == 1:
                raise ModelUnfit(f"{where}: {verdict.refusal}")
            if verdict.refusal:
                reasons.append(f"{_MIXED_GPUS}: {where}: {verdict.refusal}")
            if verdict.caution:
                reasons.append(verdict.caution)
    row = weights[0].row if len(classes) == 1 else None
    return ServedFormats(
        kernel_dtypes=_common_dtypes(weights),
        expected_kernels=() if row is None else row.kernels,
        reasons=tuple(dict.fromkeys(reasons)),
    )


def _judge_weights(
    hardware_class: HardwareClass,
    release: str,
    model: str,
    dtype: str,
    vllm_args: tuple[str, ...],
) -> FormatVerdict:
    """Return the verdict on a model's stored format, or on its format made in loading."""
    config = _read_config(model)
    name = UNQUANTIZED if config is None else stored_format(config, Path(model))
    online = last_value(vllm_args, "--quantization", "-q")
    if name == UNQUANTIZED and online is not None:
        found = find_row("weights", f"online-{online}", hardware_class, release)
        name = UNQUANTIZED if found is None else f"online-{online}"
    verdict = judge_format(
        "weights",
        name,
        hardware_class,
        release,
        dtype,
        has_experts=None if config is None else has_experts(config),
    )
    hidden = None if config is None or online is not None else _hidden_format(config, Path(model))
    return replace(verdict, refusal=hidden) if hidden and not verdict.refusal else verdict


def _hidden_format(config: dict[str, Any], folder: Path) -> str:
    """Why vLLM would load quantized weights as if they were not; empty if it would not."""
    try:
        stored = find_quantization(config, folder)
    except UnreadableModelFile as error:
        return str(error)
    if stored is None or stored.vllm_argument is None:
        return ""
    return (
        f"the format of the weights is in {stored.file} alone, which vLLM reads only with "
        f"--quantization {stored.vllm_argument}: add it after --, or put the file's content into "
        "quantization_config of config.json"
    )


def _read_config(model: str) -> dict[str, Any] | None:
    """Return the configuration of a model on this disk; None for one that vLLM will fetch."""
    file = Path(model) / "config.json"
    if not file.is_file():
        return None
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None  # `check_model` reports it
    return config if isinstance(config, dict) else None


def _common_dtypes(verdicts: Sequence[FormatVerdict]) -> tuple[str, ...]:
    """Return the dtypes that all kernels are compiled for; empty if none is limited."""
    limits = [verdict.row.dtypes for verdict in verdicts if verdict.row and verdict.row.dtypes]
    if not limits:
        return ()
    return tuple(dtype for dtype in limits[0] if all(dtype in limit for limit in limits))
