"""Score an answer: against the prompt's reference, or by the user's own function."""

from __future__ import annotations

import importlib.util
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from paceline.foundation.answer_quality.values import QualityError

Checker = Callable[[Mapping[str, Any], str], float | None]
"""Gets the prompt's fields and the answer; returns 0 to 1, or None if the prompt has no score. None
for the baseline's answer leaves the prompt out; None for the candidate's alone counts as 0."""
FUNCTION = "score"


def check_reference(prompt: Mapping[str, Any], answer: str) -> float | None:
    """1 if the answer is the reference: as JSON where both are, else as text without outer space.

    >>> check_reference({"reference": '{"a": 1}'}, '{"a":1}')
    1.0
    """
    reference = prompt.get("reference")
    if not isinstance(reference, str) or not reference:
        return None
    try:
        return float(json.loads(answer) == json.loads(reference))
    except ValueError:
        return float(answer.strip() == reference.strip())


def load_checker(file: Path) -> Checker:
    """The function `score(prompt, answer)` of a Python file. QualityError without one."""
    spec = importlib.util.spec_from_file_location("paceline_checker", file)
    if spec is None or spec.loader is None:
        raise QualityError(f"--checker is {file}, which is no Python file; its name ends in .py")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise QualityError(f"--checker {file} cannot be imported: {error}") from error
    found = getattr(module, FUNCTION, None)
    if not callable(found):
        raise QualityError(f"--checker {file} has no function {FUNCTION}(prompt, answer)")

    def checked(prompt: Mapping[str, Any], answer: str) -> float | None:
        try:
            score = found(prompt, answer)
            value = None if score is None else float(score)
        except Exception as error:
            raise QualityError(f"--checker {file} failed: {error!r}") from error
        if value is None:
            return None
        if not (math.isfinite(value) and 0 <= value <= 1):
            raise QualityError(
                f"--checker {file} returned {score!r}; it must be a number from 0 to 1, or None"
            )
        return value

    return checked
