"""Measure drafts on the target's answers: one pass of the target for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from paceline.foundation.models.acceptance.blocks import DraftCounts, by_start, count_drafts
from paceline.foundation.models.acceptance.positions import accept_tokens
from paceline.foundation.models.interruption import StopRequest
from paceline.foundation.models.models import vocabulary_size
from paceline.foundation.models.passes import batches, text_logits
from paceline.foundation.models.progress import DraftProgress
from paceline.foundation.models.values import Answer, Sampling


@dataclass(frozen=True, slots=True)
class PromptCounts:
    """What one draft is counted with on one answer."""

    key: str
    """Of the prompt."""
    conversation: str
    """Of the prompt."""
    sampling: Sampling
    counts: DraftCounts


@torch.inference_mode()
def measure_drafts(
    target: Any,
    drafts: Sequence[Any],
    answers: Sequence[Answer],
    *,
    max_draft_length: int,
    progress: DraftProgress,
    stop: StopRequest,
) -> list[list[PromptCounts]]:
    """The counts of each draft, one per answer of two or more tokens, in the same order for all.

    A draft with the target's number of embedded tokens samples its tokens, as Paceline serves it;
    one that is padded to another number takes its most probable token, which is all that vLLM
    supports then. Raises Interrupted between two batches.
    """
    progress.begin("acceptance", len(answers))
    sizes = [vocabulary_size(model.config) for model in (target, *drafts)]
    found: list[list[PromptCounts]] = [[] for _ in drafts]
    completed = 0
    usable = [answer for answer in answers if answer.num_tokens > 1]
    for batch in batches(usable, sizes[0]):
        stop.raise_if_set()
        target_logits, *drafts_logits = (text_logits(model, batch) for model in (target, *drafts))
        for row, answer in enumerate(batch):
            text = torch.tensor(answer.token_ids, device=target.device)
            for index, draft_logits in enumerate(drafts_logits):
                tokens = accept_tokens(
                    target_logits[row][:, : min(sizes)],
                    draft_logits[row][:, : min(sizes)],
                    text,
                    answer.sampling,
                    samples_drafts=sizes[index + 1] == sizes[0],
                )
                counts = count_drafts(
                    by_start(tokens.realised, max_draft_length),
                    by_start(tokens.expected, max_draft_length),
                    num_tokens=answer.num_tokens,
                    max_draft_length=max_draft_length,
                )
                found[index].append(
                    PromptCounts(answer.key, answer.conversation, answer.sampling, counts)
                )
        completed += len(batch)
        progress.update(completed)
    return found
