"""Find the model that an argument names: a folder, a `config.json`, or a name of the table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.capacity.model.hf_config import UnknownModelError, read_model_config
from paceline.capacity.model.weight_format import (
    WeightFormat,
    named_format,
    read_weight_format,
)
from paceline.named_models import MODEL_NAMES, NamedModelMissing, target_of
from paceline.near_names import did_you_mean
from paceline.plan.sources.catalogue import Catalogue
from paceline.plan.values import PlanError, PlannedModel

_MAX_HEADER_BYTES = 100_000_000
"""The limit of the safetensors format on its header."""


def find_model(
    argument: str,
    catalogue: Catalogue,
    *,
    dtype: str | None = None,
    quantization: str | None = None,
) -> PlannedModel:
    """Return the model that `argument` names.

    `dtype` replaces the checkpoint's, `quantization` ("none", "awq", "gptq", "w8a8", "fp8") plans
    for weights converted to that scheme. Raises `PlanError`.
    """
    try:
        argument = target_of(argument)
    except NamedModelMissing as missing:
        raise PlanError(str(missing)) from None
    path = Path(argument)
    checkpoint_bytes = None
    if path.exists():
        file = path / "config.json" if path.is_dir() else path
        config, source = _read_config(file), str(file)
        checkpoint_bytes = _checkpoint_bytes(file.parent)
    else:
        found = catalogue.model_config(argument)
        if found is None:
            raise PlanError(
                f"MODEL {argument!r} is neither a folder with config.json nor a name of the table; "
                f"the table has {_nearby(argument, catalogue.model_names())}. Download its "
                "config.json and give the file, or add the model with --catalogue FILE"
                f"{did_you_mean(argument, MODEL_NAMES)}"
            )
        config, source = found, "the table of well-known models"
    try:
        shape = read_model_config(config)
        weight_format, converted_to = _planned_format(config, dtype or shape.dtype, quantization)
    except UnknownModelError as error:
        raise PlanError(f"{argument}: {error}") from None
    except ValueError as error:
        raise PlanError(f"{argument}: {error}") from None
    return PlannedModel(argument, source, shape, weight_format, checkpoint_bytes, converted_to)


def _planned_format(
    config: Mapping[str, Any], dtype: str, quantization: str | None
) -> tuple[WeightFormat, str | None]:
    """The format to plan for, and the scheme that makes it of the stored weights."""
    if quantization is None:
        return read_weight_format(config, dtype), None
    wanted = named_format(quantization, dtype)
    try:
        stored = read_weight_format(config, dtype)
    except ValueError:  # unknown, and not what is planned
        return wanted, quantization
    if stored.name == wanted.name:
        return stored, None
    return wanted, quantization if wanted.is_quantized else None


def _read_config(file: Path) -> Mapping[str, Any]:
    if not file.is_file():
        raise PlanError(
            f"MODEL {str(file.parent)!r} has no config.json; give a folder of a model, its "
            "config.json, or a name of the table"
        )
    try:
        config = json.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise PlanError(f"{file} is no JSON file: {error}") from None
    if not isinstance(config, dict):
        raise PlanError(f"{file} holds a {type(config).__name__}; a config.json is an object")
    return config


def _checkpoint_bytes(folder: Path) -> int | None:
    """Sum the tensors of the safetensors files, from their headers; None without such files."""
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        return None
    return sum(_tensor_bytes(file) for file in files)


def _tensor_bytes(file: Path) -> int:
    with file.open("rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
        if size > _MAX_HEADER_BYTES:
            raise PlanError(f"{file} is no safetensors file: its header would have {size} bytes")
        try:
            header = json.loads(opened.read(size))
            offsets = [
                tensor["data_offsets"] for name, tensor in header.items() if name != "__metadata__"
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise PlanError(f"{file} is no safetensors file: {error!r}") from None
    return sum(int(end) - int(start) for start, end in offsets)


def _nearby(argument: str, names: list[str]) -> str:
    """Return up to five names that share the first letters, or the number of all."""
    short = argument.rpartition("/")[2].lower()
    for length in (12, 8, 5):
        close = [
            name for name in names if name.rpartition("/")[2].lower()[:length] == short[:length]
        ]
        if close:
            return ", ".join(close[:5])
    return f"{len(names)} models, such as {', '.join(names[:3])}"
