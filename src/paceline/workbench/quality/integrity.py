"""Tier 1: the folder can be served, and holds what it says.

Everything that can be known before a model is loaded: the table of number formats, the stored
tensors, the checksums of the provenance, the prompts as tokens. What is computed with a server's
kernel is asserted by `paceline serve`, which reads the kernel of each layer after loading.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from paceline.foundation.compatibility.hardware_classes import HardwareClass
from paceline.foundation.compatibility.number_formats import judge_format
from paceline.foundation.quantized.provenance import FILE
from paceline.foundation.quantized.source_model import checksums

_OF_A_DRAFT = "paceline draft"
"""`kind` in the provenance that `paceline draft train` writes."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where the candidates are to be served."""

    hardware: HardwareClass
    vllm_release: str
    kv_cache_format: str
    """`auto` or `fp8`."""


def find_refusals(name: str, target: Target) -> tuple[str, ...]:
    """Why the table of number formats refuses the format `name`; empty if it does not."""
    verdicts = (
        judge_format("weights", name, target.hardware, target.vllm_release),
        judge_format("kv_cache", target.kv_cache_format, target.hardware, target.vllm_release),
    )
    return tuple(verdict.refusal for verdict in verdicts if verdict.refusal)


def find_changed_files(folder: Path, on_bytes: Callable[[int], None]) -> tuple[str, ...]:
    """Weights that differ from the folder's provenance, as one fault; empty without provenance.

    The provenance of a trained draft records none.
    """
    try:
        document = json.loads((folder / FILE).read_text(encoding="utf-8"))
        if document.get("kind") == _OF_A_DRAFT:
            return ()
        recorded = {
            name: entry["sha256"]
            for name, entry in document["output"]["files"].items()
            if name.endswith(".safetensors")
        }
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return (f"its {FILE} cannot be read: {error}",)
    paths = [folder / name for name in recorded]
    missing = [path.name for path in paths if not path.is_file()]
    found = checksums([path for path in paths if path.is_file()], on_bytes)
    changed = missing + [name for name, entry in found.items() if entry["sha256"] != recorded[name]]
    if not changed:
        return ()
    return (
        f"{len(changed)} files are not those that its {FILE} records, such as {changed[0]}; "
        "quantize again",
    )
