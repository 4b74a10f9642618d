"""Name the settings with which this process would start an engine and an adopted one was not.

Only names are given: a value may be a secret, such as that of `HF_TOKEN`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from paceline.runtime.engine.launch.environment import ENGINE_CORE_PREFIX

_VARIABLES = (
    *("VLLM_", "TORCH", "PYTORCH_", "TRITON_", "RAY_"),
    *("HF_", "HUGGING_FACE_", "HUGGINGFACE_", "TRANSFORMERS_"),
    *("CUDA_", "NVIDIA_", "NCCL_", "ROCR_", "HIP_"),
    *("OMP_", "KMP_", "GOMP_", "MKL_", "LD_PRELOAD", "LD_LIBRARY_PATH"),
)
"""How the names of variables begin that decide how an engine computes or which files it loads.
Others, such as those of a shell, differ between any two processes."""
_FLAG = re.compile(r"--?[A-Za-z]")
_PROGRAM = "the program"
"""What stands before the first flag."""


def changed_arguments(
    started: Sequence[str], folder: Path, current: Sequence[str], current_folder: Path
) -> list[str]:
    """The flags whose values differ between two command lines, but for the engines' folders."""
    return _differing(_by_flag(started, folder), _by_flag(current, current_folder))


def changed_variables(started: Mapping[str, str], current: Mapping[str, str]) -> list[str]:
    """The variables of an engine that differ between two environments, in alphabetical order."""
    return sorted(_differing(_of_engine(started), _of_engine(current)))


def _by_flag(arguments: Sequence[str], folder: Path) -> dict[str, list[str]]:
    """The values of each flag, in order; without the path of the folder."""
    flag, found = _PROGRAM, dict[str, list[str]]()
    for argument in arguments:
        value: str | None = argument
        if _FLAG.match(argument):
            flag, separator, given = argument.partition("=")
            value = given if separator else None
        values = found.setdefault(flag, [])
        if value is not None:
            values.append(value.replace(str(folder), ""))
    return found


def _of_engine(environment: Mapping[str, str]) -> dict[str, str]:
    """Its variables, by the names that the engine core reads."""
    wrapped = {
        name.removeprefix(ENGINE_CORE_PREFIX): value
        for name, value in environment.items()
        if name.startswith(ENGINE_CORE_PREFIX)
    }
    named = {**environment, **wrapped}
    return {name: value for name, value in named.items() if name.startswith(_VARIABLES)}


def _differing(before: Mapping[str, object], after: Mapping[str, object]) -> list[str]:
    names = dict.fromkeys([*before, *after])
    return [name for name in names if before.get(name) != after.get(name)]
