"""Make the `paceline.yaml` of a cell from the user's own and the values of the cell.

The server of a trial runs with the settings of its `RestartConfig`; the file that is written for
the winner holds its live setting too.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from paceline.foundation.command_line.near_names import did_you_mean
from paceline.foundation.files.strict_files import dump_yaml
from paceline.runtime.config import ConfigError, Settings, read_file
from paceline.runtime.config.sources import setting_keys
from paceline.workbench.tune.values import Cell, RestartConfig, Scalar, TuneError

_GPU_ARGS = ("--tensor-parallel-size", "--pipeline-parallel-size")


def load_base(config: Path | None, model: str | None) -> dict[str, Any]:
    """The user's configuration as it is in the file, with MODEL in place of its model."""
    document: dict[str, Any] = {}
    if config is not None:
        try:
            document = dict(read_file(config))
        except ConfigError as error:
            raise TuneError(f"--config: {error}") from None
    if model is not None:
        document = _with_setting(document, "engine.model", model)
    check_document(document, "the configuration")
    return document


def server_document(
    base: Mapping[str, Any], restart: RestartConfig, max_in_flight: int
) -> dict[str, Any]:
    """The configuration of a server that admits up to `max_in_flight` requests.

    Raises TuneError if a value of the space is not allowed.
    """
    document = copy.deepcopy(dict(base))
    for name, value in restart.settings:
        document = _with_setting(document, name, value)
    replicas = check_document(document, restart.label).engine.replicas
    limit = math.ceil(max_in_flight / max(1, replicas))
    document = _with_setting(document, "admission.max_in_flight", limit)
    check_document(document, restart.label)
    return document


def cell_document(base: Mapping[str, Any], cell: Cell) -> dict[str, Any]:
    """The configuration that serves as the cell did, its live setting included."""
    document = server_document(base, cell.restart, cell.live.max_in_flight)
    if cell.live.draft_length is not None:
        engine = {
            name: value
            for name, value in document.get("engine", {}).items()
            if name not in ("policy_parameters", "schedule")
        }
        engine |= {"policy": "fixed", "draft_length": cell.live.draft_length}
        document = {**document, "engine": engine}
    check_document(document, cell.label)
    return document


def render_yaml(document: Mapping[str, Any], comments: Sequence[str]) -> str:
    """The document as YAML, after comment lines."""
    text = dump_yaml(dict(document), sort_keys=False, allow_unicode=True)
    return "".join(f"# {line}\n" for line in comments) + text


def engine_settings(document: Mapping[str, Any]) -> Settings:
    """All settings of a document, defaults included."""
    return check_document(document, "the configuration")


def num_gpus(document: Mapping[str, Any]) -> int:
    """GPUs that the engines of a document take: replicas x tensor x pipeline parallel size."""
    engine = engine_settings(document).engine
    size = engine.replicas
    for name in _GPU_ARGS:
        size *= int(argument(engine.vllm_args, name) or 1)
    return size


def argument(vllm_args: Sequence[str], name: str) -> str | None:
    """The value of an argument of vLLM, as `--name value` or `--name=value`.

    >>> argument(("--a", "1", "--b=2"), "--b")
    '2'
    """
    for index, one in enumerate(vllm_args):
        if one == name and index + 1 < len(vllm_args):
            return vllm_args[index + 1]
        if one.startswith(f"{name}="):
            return one.partition("=")[2]
    return None


def check_document(document: Mapping[str, Any], where: str) -> Settings:
    """The settings; TuneError that names the first wrong one."""
    try:
        return Settings.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "it"
        is_unknown = first["type"] == "extra_forbidden"
        near = did_you_mean(name, map(".".join, setting_keys())) if is_unknown else ""
        raise TuneError(
            f"{where} is not allowed: {name}: {first['msg']}. Correct --config or --space{near}"
        ) from None


def _with_setting(document: Mapping[str, Any], name: str, value: Scalar) -> dict[str, Any]:
    """The document with a setting of paceline.yaml, or an argument of vLLM (`--…`), replaced."""
    if name.startswith("--"):
        engine = dict(document.get("engine") or {})
        engine["vllm_args"] = [
            *_without_argument(engine.get("vllm_args") or (), name),
            *_as_arguments(name, value),
        ]
        return {**document, "engine": engine}
    section, dot, key = name.partition(".")
    if not dot or "." in key:
        raise TuneError(
            f"restart.{name} is no setting; name one of paceline.yaml, such as engine.draft, or an "
            "argument of vLLM, such as --max-num-seqs"
        )
    return {**document, section: {**(document.get(section) or {}), key: value}}


def _without_argument(vllm_args: Sequence[str], name: str) -> list[str]:
    kept: list[str] = []
    is_value = False
    for one in vllm_args:
        if is_value and not str(one).startswith("--"):
            is_value = False
            continue
        is_value = one == name
        if not is_value and not str(one).startswith(f"{name}="):
            kept.append(str(one))
    return kept


def _as_arguments(name: str, value: Scalar) -> list[str]:
    """`true` is the bare flag, `false` leaves the argument out."""
    if isinstance(value, bool):
        return [name] if value else []
    return [name, value if isinstance(value, str) else json.dumps(value)]
