"""Find the model that an argument names: a folder, a `config.json`, or a name of the table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from paceline.foundation.capacity.model.hf_config import read_model_config
from paceline.foundation.capacity.model.quantized_config import read_weight_format
from paceline.foundation.capacity.model.weight_format import WeightFormat, named_format
from paceline.foundation.command_line.near_names import did_you_mean
from paceline.foundation.compatibility.quantization_config import (
    UnreadableModelFile,
    find_quantization,
    kv_cache_format,
    read_json_object,
)
from paceline.foundation.compatibility.weight_files import BrokenIndex, loaded_safetensors
from paceline.foundation.named_models import MODEL_NAMES, NamedModelMissing, target_of
from paceline.foundation.planning.sources.catalogue import Catalogue, short_key
from paceline.foundation.planning.values import PlanError, PlannedModel

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
    checkpoint_bytes, folder = None, None
    if path.exists():
        file = path / "config.json" if path.is_dir() else path
        config, source = _read_config(file), str(file)
        folder = file.parent
        checkpoint_bytes = _checkpoint_bytes(folder)
    else:
        name, found = catalogue.find_model(argument)
        if found is None:
            raise PlanError(
                f"MODEL {argument!r} is neither a folder with config.json nor a name of the table; "
                f"the table has {_nearby(argument, catalogue.model_names())} (all: paceline plan "
                "--list). Download its config.json and give the file, or add the model with "
                "--catalogue FILE"
                f"{did_you_mean(argument, MODEL_NAMES)}"
            )
        argument, config, source = name, found, "the table of well-known models"
    try:
        shape = read_model_config(config)
        stored = find_quantization(config, folder)
        settings = {} if stored is None else {"quantization_config": stored.settings}
        weight_format, converted_to = _planned_format(settings, dtype or shape.dtype, quantization)
        if stored is not None and converted_to is None:
            weight_format = replace(weight_format, kv_dtype=kv_cache_format(stored.settings))
    except ValueError as error:
        raise PlanError(f"{argument}: {error}") from None
    return PlannedModel(
        argument,
        source,
        shape,
        weight_format,
        checkpoint_bytes,
        converted_to,
        None if stored is None or converted_to is not None else stored.vllm_argument,
    )


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
        return read_json_object(file)
    except UnreadableModelFile as error:
        raise PlanError(str(error)) from None


def _checkpoint_bytes(folder: Path) -> int | None:
    """Sum the tensors that vLLM loads, from the headers of their files; None without such files.

    A folder may have its weights twice, such as shards with an index and one consolidated file.
    """
    try:
        files = loaded_safetensors(folder)
    except BrokenIndex as error:
        raise PlanError(str(error)) from None
    return sum(_tensor_bytes(file) for file in files) if files else None


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
    short = short_key(argument)
    for length in (12, 10, 8, 5):
        close = [name for name in names if short_key(name)[:length] == short[:length]]
        if close:
            return ", ".join(close[:5])
    return f"{len(names)} models, such as {', '.join(names[:3])}"
