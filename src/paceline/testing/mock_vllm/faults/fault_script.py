"""Read fault scripts in YAML or JSON."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from paceline.foundation.files.strict_files import StrictFileError, load_yaml
from paceline.testing.mock_vllm.faults.fault import Fault, FaultKind


def read_faults(script: object) -> list[Fault]:
    """Read faults from parsed YAML or JSON: a list, or an object with a list under `faults`.

    Raises `ValueError` with the number of the wrong fault and the reason.
    """
    entries = script.get("faults") if isinstance(script, dict) else script
    if not isinstance(entries, list):
        raise ValueError("A fault script must be a list of faults, or an object with `faults`.")
    return [_read_fault(number, entry) for number, entry in enumerate(entries, 1)]


def load_faults(path: Path) -> list[Fault]:
    """Read the faults of a YAML or JSON file."""
    try:
        return read_faults(load_yaml(path.read_text()))
    except StrictFileError as error:
        raise ValueError(f"{path} is neither YAML nor JSON: {error}") from None


def _read_fault(number: int, entry: object) -> Fault:
    if not isinstance(entry, dict):
        raise ValueError(f"Fault {number} must be an object such as {{kind: die}}, got {entry!r}.")
    known = [field.name for field in fields(Fault)]
    if unknown := sorted(map(str, entry.keys() - set(known))):
        raise ValueError(
            f"Fault {number} has unknown fields: {', '.join(unknown)}. "
            f"Known fields: {', '.join(known)}."
        )
    try:
        kind = FaultKind(entry.get("kind", ""))
    except ValueError:
        raise ValueError(
            f"Fault {number}: kind must be one of {', '.join(FaultKind)}; "
            f"got {entry.get('kind')!r}."
        ) from None
    for name, value in entry.items():
        _check_type(number, name, value)
    try:
        return Fault(**{**entry, "kind": kind})
    except ValueError as error:
        raise ValueError(f"Fault {number}: {error}") from None


def _check_type(number: int, name: str, value: object) -> None:
    if name in ("kind", "route", "containing", "ending"):
        is_right, wanted = isinstance(value, str), "a string"
    elif name in ("rate", "after_s", "duration_s", "factor", "share"):
        is_right = isinstance(value, int | float) and not isinstance(value, bool)
        wanted = "a number"
    else:
        is_right, wanted = type(value) is int, "an integer"
    if not is_right and value is not None:
        raise ValueError(f"Fault {number}: {name} must be {wanted}, got {value!r}.")
