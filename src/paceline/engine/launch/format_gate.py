"""Refuse number formats that this machine cannot serve, before anything is loaded.

Reads the configuration of local models and the user's vLLM arguments, and consults the table of
`paceline.compatibility.number_formats`. Models named as on Hugging Face are left to vLLM.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.compatibility.number_formats import FormatVerdict, find_row, judge_format
from paceline.compatibility.stored_formats import UNQUANTIZED, stored_format
from paceline.engine.launch.command import last_value
from paceline.engine.launch.hardware import Hardware
from paceline.engine.launch.model_folder import ModelUnfit

_DTYPES = {"float": "float32", "half": "float16"}
"""Other names that vLLM has for a dtype."""


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
    or name of a draft model, None without one.
    """
    given = last_value(vllm_args, "--dtype") or dtype
    effective = _DTYPES.get(given, given)
    kv_format = last_value(vllm_args, "--kv-cache-dtype") or kv_cache_dtype
    release = hardware.vllm_release or "of an unknown release"
    weights = [
        _judge_weights(hardware, release, model, effective, vllm_args if index == 0 else ())
        for index, model in enumerate((target, draft))
        if model is not None
    ]
    kv_cache = judge_format("kv_cache", kv_format, hardware.hardware_class, release)
    for verdict, where in (
        *((verdict, model) for model, verdict in weights),
        (kv_cache, "engine.kv_cache_dtype"),
    ):
        if verdict.refusal:
            raise ModelUnfit(f"{where}: {verdict.refusal}")
    verdicts = [verdict for _, verdict in weights]
    return ServedFormats(
        kernel_dtypes=_common_dtypes(verdicts),
        expected_kernels=() if verdicts[0].row is None else verdicts[0].row.kernels,
        reasons=tuple(verdict.caution for verdict in (*verdicts, kv_cache) if verdict.caution),
    )


def _judge_weights(
    hardware: Hardware, release: str, model: str, dtype: str, vllm_args: tuple[str, ...]
) -> tuple[str, FormatVerdict]:
    """Return the model, and the verdict on its stored format or on its format made in loading."""
    name = _stored_format(model)
    online = last_value(vllm_args, "--quantization", "-q")
    if name == UNQUANTIZED and online is not None:
        found = find_row("weights", f"online-{online}", hardware.hardware_class, release)
        name = UNQUANTIZED if found is None else f"online-{online}"
    return model, judge_format("weights", name, hardware.hardware_class, release, dtype)


def _stored_format(model: str) -> str:
    """Return the format of a model on this disk; `none` for one that vLLM will fetch."""
    file = Path(model) / "config.json"
    if not file.is_file():
        return UNQUANTIZED
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return UNQUANTIZED  # `check_model` reports it
    return stored_format(config) if isinstance(config, dict) else UNQUANTIZED


def _common_dtypes(verdicts: Sequence[FormatVerdict]) -> tuple[str, ...]:
    """Return the dtypes that all kernels are compiled for; empty if none is limited."""
    limits = [verdict.row.dtypes for verdict in verdicts if verdict.row and verdict.row.dtypes]
    if not limits:
        return ()
    return tuple(dtype for dtype in limits[0] if all(dtype in limit for limit in limits))
