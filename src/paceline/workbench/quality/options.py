"""What is compared, and how: the options of the command as values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from paceline.foundation.answer_quality.checkers import Checker
from paceline.foundation.answer_quality.decisions import Limits
from paceline.foundation.models.values import Sampling
from paceline.workbench.quality.integrity import Target


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """One comparison of candidates with a baseline."""

    baseline: Path
    """Folder of the unquantized model."""
    draft: Path | None
    prompts_file: Path
    target: Target
    dtype: torch.dtype
    """Arithmetic of the candidates and of their yardsticks."""
    device: torch.device
    samplings: tuple[Sampling, ...]
    max_tokens: int
    max_draft_length: int
    limit: int | None
    seed: int
    checker: Checker
    limits: Limits
    ends_at_fault: bool = False
    """Whether a candidate that tier 2 rejects gets no task score: it costs most of the time."""

    @property
    def num_after_end(self) -> int:
        """Tokens after the end of an answer, which a draft may reach."""
        return self.max_draft_length - 1 if self.draft is not None else 0

    @property
    def has_fp8_cache(self) -> bool:
        """Whether keys and values are stored in FP8."""
        return self.target.kv_cache_format == "fp8"
