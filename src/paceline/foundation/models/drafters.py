"""Any drafter, by its folder: whether it fits a target, and its acceptance."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paceline.foundation.models.acceptance import PromptCounts, measure_drafts
from paceline.foundation.models.eagle_head import is_eagle3_head
from paceline.foundation.models.heads.folder import read_fitting_head
from paceline.foundation.models.heads.measuring import measure_head
from paceline.foundation.models.interruption import StopRequest
from paceline.foundation.models.models import check_same_tokens, load_model, load_tokenizer
from paceline.foundation.models.progress import DraftProgress
from paceline.foundation.models.values import Answer


def check_drafter(target: Path, drafter: Path, tokenizer: Any) -> None:
    """DraftError unless the head or draft model is for `target`, of which `tokenizer` is the
    tokenizer."""
    if is_eagle3_head(drafter):
        read_fitting_head(drafter, target)
    else:
        check_same_tokens(target, drafter, (tokenizer, load_tokenizer(drafter)))


def measure_drafter(
    target: Any,
    target_folder: Path,
    drafter: Path,
    answers: Sequence[Answer],
    *,
    max_draft_length: int,
    progress: DraftProgress,
    stop: StopRequest,
) -> list[PromptCounts]:
    """The counts of a head or a draft model on the answers of `target`.

    DraftError where it does not fit; Interrupted between two answers or batches.
    """
    if is_eagle3_head(drafter):
        return measure_head(
            target,
            read_fitting_head(drafter, target_folder).to(target.device),
            answers,
            max_draft_length=max_draft_length,
            progress=progress,
            stop=stop,
        )
    [counts] = measure_drafts(
        target,
        [load_model(drafter, target.dtype, target.device)],
        answers,
        max_draft_length=max_draft_length,
        progress=progress,
        stop=stop,
    )
    return counts
