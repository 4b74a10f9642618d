"""Find how a model's weights are quantized, wherever its folder says so, in one form.

`config.json` has it as `quantization_config`, also inside `text_config`, or `compression_config`.
ModelOpt before 0.31 wrote `hf_quant_config.json` instead, which vLLM reads; AutoGPTQ and AutoAWQ
wrote files that vLLM reads only with its own argument. The settings are returned as a
`quantization_config` of today would have them; what they mean is for `stored_formats` and for the
planner's weight formats.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MODELOPT_FILE = "hf_quant_config.json"
_OLD_FILES = {"quantize_config.json": "gptq", "quant_config.json": "awq"}
"""The method of a file that vLLM reads with --quantization alone."""


class UnreadableModelFile(ValueError):
    """A JSON file of a model that cannot be read; the message names it."""


@dataclass(frozen=True, slots=True)
class StoredQuantization:
    """The settings, and where they stand."""

    settings: Mapping[str, Any]
    file: str = "config.json"
    vllm_argument: str | None = None
    """Value of vLLM's --quantization, without which it does not read the file; None for none."""


def find_quantization(config: Mapping[str, Any], folder: Path | None) -> StoredQuantization | None:
    """Return the settings of a parsed `config.json` in this folder; None for unquantized weights.

    `folder` is None for a model that is not on this disk. Raises `UnreadableModelFile`.
    """
    text_config = config.get("text_config")
    found = config.get("quantization_config") or config.get("compression_config")
    if not found and isinstance(text_config, Mapping):
        found = text_config.get("quantization_config")
    if found:
        if not isinstance(found, Mapping):
            raise UnreadableModelFile(
                f"quantization_config in config.json is a {type(found).__name__}; it must be an "
                "object"
            )
        return StoredQuantization(_flat(found))
    if folder is None:
        return None
    if (folder / _MODELOPT_FILE).is_file():
        return StoredQuantization(_flat(read_json_object(folder / _MODELOPT_FILE)), _MODELOPT_FILE)
    for name, method in _OLD_FILES.items():
        if (folder / name).is_file():
            settings = {"quant_method": method, **read_json_object(folder / name)}
            return StoredQuantization(settings, name, method)
    return None


def with_quantization(config: Mapping[str, Any], folder: Path | None) -> dict[str, Any]:
    """Return the config with the settings as its `quantization_config`; raises as above."""
    found = find_quantization(config, folder)
    kept = {key: value for key, value in config.items() if key != "compression_config"}
    return kept if found is None else {**kept, "quantization_config": dict(found.settings)}


def kv_cache_format(quantization: Mapping[str, Any]) -> str | None:
    """Return "fp8" where vLLM chooses that KV cache by itself; None where the dtype's is used.

    It does so for ModelOpt only.
    """
    if not str(quantization.get("quant_method", "")).startswith("modelopt"):
        return None
    scheme = quantization.get("kv_cache_scheme")
    if isinstance(scheme, Mapping):
        is_fp8 = scheme.get("num_bits") == 8 and scheme.get("type") == "float"
        return "fp8" if is_fp8 and scheme.get("dynamic") is False else None
    return "fp8" if str(quantization.get("kv_cache_quant_algo")).lower() == "fp8" else None


def modelopt_algorithm(quantization: Mapping[str, Any]) -> str:
    """Return ModelOpt's name of the format, in capitals; empty where it has none."""
    return str(quantization.get("quant_algo") or "").upper()


def _flat(found: Mapping[str, Any]) -> Mapping[str, Any]:
    """ModelOpt's older form, {"producer", "quantization": {"quant_algo", …}}, as the newer one."""
    inner = found.get("quantization")
    if not isinstance(inner, Mapping):
        return found
    flat = {"quant_method": "modelopt", **found, **inner}
    flat.pop("quantization")
    flat["ignore"] = inner.get("exclude_modules") or []
    return flat


def read_json_object(file: Path) -> dict[str, Any]:
    """Return the object in a JSON file of a model; raises `UnreadableModelFile`.

    A byte order mark is skipped.
    """
    try:
        content = json.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise UnreadableModelFile(f"{file} cannot be read: {error}") from None
    if not isinstance(content, dict):
        raise UnreadableModelFile(f"{file} holds a {type(content).__name__}, not an object")
    return content
