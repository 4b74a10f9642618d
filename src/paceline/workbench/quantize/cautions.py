"""When not to quantize: what the user should know before a quantized model answers anyone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from paceline.foundation.quantized.job import Job

_SMALL_PARAMS = 13e9
"""Below this, 8 and 4 bits cost quality that users notice (the rule of `paceline plan`)."""
_EXACT_NAME = re.compile(r"code|math|starcoder|deepseek-prover", re.IGNORECASE)
_EXACT_TEXT = re.compile(
    r"```|^\s*(def|class|import|from|#include|function|public|SELECT)\b|\\frac|\\sum|\$\$|[=<>]\s*\d+\s*[+*/]",
    re.MULTILINE,
)
_EXACT_FRACTION = 0.2
"""Fraction of the prompts that look like code or mathematics, from which on the caution is due.
Chosen empirically."""


def find_cautions(job: Job, texts: Iterable[str]) -> list[str]:
    """Return the cautions, one sentence each. `texts` are the calibration prompts."""
    found = []
    if job.source.num_params < _SMALL_PARAMS:
        found.append(
            f"the model has {_params(job.source.num_params)} parameters: below 13B, quantization "
            "costs quality that users notice. Compare answers on your own prompts before it serves"
        )
    why_exact = _why_exact(job, list(texts))
    if why_exact:
        bits = f"{job.scheme.bits} bits"
        found.append(
            f"{why_exact}: code and mathematics have to be exact, and suffer first from {bits}. "
            "Check them with tests of your own, or serve them unquantized"
        )
    if job.calibration is not None and job.calibration.sha256 is None:
        found.append(
            f"calibrated on the built-in workload {job.calibration.origin!r}; give --calibration "
            "with prompts of your own traffic"
        )
    return found


def _why_exact(job: Job, texts: list[str]) -> str:
    name = _name_of(job.source.folder.resolve())
    if _EXACT_NAME.search(name):
        return f"the model is called {name}"
    if not texts:
        return ""
    fraction = sum(bool(_EXACT_TEXT.search(text)) for text in texts) / len(texts)
    if fraction < _EXACT_FRACTION:
        return ""
    return f"{fraction:.0%} of the calibration prompts look like code or mathematics"


def _name_of(folder: Path) -> str:
    """Return the folder's name; in the cache of Hugging Face, where that is a hash, the model's."""
    if folder.parent.name != "snapshots":
        return folder.name
    return folder.parent.parent.name.removeprefix("models--").replace("--", "/")


def _params(number: int) -> str:
    return f"{number / 1e9:.3g}B" if number >= 1e9 else f"{number / 1e6:.3g}M"
