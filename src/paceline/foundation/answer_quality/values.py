"""Values that every room of the quality gate uses."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class QualityError(Exception):
    """The models cannot be compared as asked. The message says why and what is allowed."""


class NotComputed(QualityError):
    """A number format is computed by servers only."""


class TextKind(StrEnum):
    """Where a text that both models score comes from."""

    GREEDY = "greedy"
    """The baseline's greedy answer."""
    SAMPLED = "sampled"
    """The baseline's sampled answer."""
    REFERENCE = "reference"
    """The reference answer in the prompt file."""


@dataclass(frozen=True, slots=True)
class Text:
    """A text after a prompt, which both models score token by token."""

    key: str
    """Unique among the texts of a comparison."""
    conversation: str
    """Equal for all prompts of one conversation: the unit of all statistics."""
    kind: TextKind
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with a bound on either side; None where there is too little data for one."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one prompt's greedy answers were judged."""

    conversation: str
    baseline: float
    """Score of the baseline's answer, 0 to 1."""
    candidate: float
    """Score of the candidate's answer, 0 to 1."""


@dataclass(frozen=True, slots=True)
class AcceptanceChange:
    """Acceptance of the draft with the baseline and with the candidate as target."""

    sampling: str
    """How the targets sample, in words."""
    baseline: float
    candidate: float
    low: float
    """Of the difference candidate - baseline, 95 % interval, paired by conversation."""
    high: float
