"""Find a trace: one of the published ones by its name, or a file of JSON or YAML."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import yaml

from paceline.foundation.command_line.near_names import did_you_mean
from paceline.foundation.shifting_trace.reading import parse_trace
from paceline.foundation.shifting_trace.values import ShiftingTrace
from paceline.foundation.workloads.fields import WorkloadError

_SUFFIX = ".json"


def published_names() -> tuple[str, ...]:
    """The names of the published traces, in alphabetical order."""
    folder = resources.files("paceline.foundation.shifting_trace") / "data"
    names = (path.name for path in folder.iterdir())
    return tuple(sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)))


def find_trace(name_or_file: str) -> ShiftingTrace:
    """The published trace of this name, else the trace in this file.

    Raises `WorkloadError` if there is neither, or for a trace that is not well-formed.
    """
    if name_or_file in published_names():
        path = (
            resources.files("paceline.foundation.shifting_trace")
            / "data"
            / f"{name_or_file}{_SUFFIX}"
        )
        return _parse(path.read_text(encoding="utf-8"), f"published trace {name_or_file}")
    try:
        text = Path(name_or_file).read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise WorkloadError(
            f"trace is {name_or_file!r}; it must be a file or one of the published traces "
            f"{', '.join(published_names())}{did_you_mean(name_or_file, published_names())}"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise WorkloadError(f"cannot read {name_or_file}: {error}") from error
    return _parse(text, name_or_file)


def _parse(text: str, where: str) -> ShiftingTrace:
    try:
        document = yaml.safe_load(text)  # JSON is YAML
    except yaml.YAMLError as error:
        raise WorkloadError(f"{where} is neither YAML nor JSON: {error}") from error
    return parse_trace(document, where)
