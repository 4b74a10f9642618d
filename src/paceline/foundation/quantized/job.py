"""One quantization as a value, and how its progress is reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from paceline.foundation.quantized.calibration import Calibration
from paceline.foundation.quantized.schemes import Scheme
from paceline.foundation.quantized.source_model import SourceModel

OnProgress = Callable[[str, int, int], None]
"""Gets the current step in words, and how much of it is done of how much."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to quantize, and how."""

    source: SourceModel
    scheme: Scheme
    group_size: int | None
    calibration: Calibration | None
    seed: int


@dataclass(frozen=True, slots=True)
class Made:
    """How a backend made the folder, for the provenance."""

    backend: str
    """`own` or `llm-compressor`."""
    method: str
    """In words: round to nearest, AWQ search, GPTQ."""
    versions: dict[str, str]
    ignored_layers: tuple[str, ...]
