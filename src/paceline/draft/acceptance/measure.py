"""Measure drafts on the target's answers: one pass of the target for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from paceline.draft.acceptance.blocks import DraftCounts, count_drafts
from paceline.draft.acceptance.positions import accept_tokens
from paceline.draft.interruption import StopRequest
from paceline.draft.models import vocabulary_size
from paceline.draft.progress import DraftProgress
from paceline.draft.values import Answer, Sampling

_MAX_BATCH_TOKENS = 4096
_MAX_BATCH_LOGITS = 32 * 1024**2
"""Chosen: bounds the logits of a batch to 128 MiB per model, one answer at least."""


@dataclass(frozen=True, slots=True)
class PromptCounts:
    """What one draft is counted with on one answer."""

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
    for batch in _batches(answers, sizes[0]):
        stop.raise_if_set()
        token_ids = _right_padded(batch).to(target.device)
        first = min(len(answer.prompt_ids) for answer in batch) - 1
        kept = torch.arange(first, token_ids.shape[1] - 1, device=target.device)
        logits = [_logits(model, token_ids[:, :-1], kept) for model in (target, *drafts)]
        logits = [one[..., : min(sizes)] for one in logits]
        for row, answer in enumerate(batch):
            start = len(answer.prompt_ids) - 1 - first
            span = slice(start, start + len(answer.token_ids))
            text = torch.tensor(answer.token_ids, device=target.device)
            for index, draft_logits in enumerate(logits[1:]):
                tokens = accept_tokens(
                    logits[0][row, span],
                    draft_logits[row, span],
                    text,
                    answer.sampling,
                    samples_drafts=sizes[index + 1] == sizes[0],
                )
                counts = count_drafts(
                    tokens.realised,
                    tokens.expected,
                    num_tokens=answer.num_tokens,
                    max_draft_length=max_draft_length,
                )
                found[index].append(PromptCounts(answer.conversation, answer.sampling, counts))
        completed += len(batch)
        progress.update(completed)
    return found


def _logits(model: Any, token_ids: Tensor, kept: Tensor) -> Tensor:
    """Logits (num_rows, num_kept, vocab_size) in float32."""
    logits: Tensor = model(input_ids=token_ids, use_cache=False, logits_to_keep=kept).logits
    return logits.float()


def _right_padded(answers: Sequence[Answer]) -> Tensor:
    """Prompts with their answers, (num_answers, longest). Causal models ignore what follows."""
    rows = [torch.tensor((*a.prompt_ids, *a.token_ids)) for a in answers]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def _batches(answers: Sequence[Answer], vocab_size: int) -> Iterator[list[Answer]]:
    """Answers of two or more tokens, by length, within the bounds of a batch."""
    usable = [answer for answer in answers if answer.num_tokens > 1]
    limit = min(_MAX_BATCH_TOKENS, _MAX_BATCH_LOGITS // vocab_size)
    batch: list[Answer] = []
    for answer in sorted(usable, key=_length):
        if batch and _length(answer) * (len(batch) + 1) > limit:
            yield batch
            batch = []
        batch.append(answer)
    if batch:
        yield batch


def _length(answer: Answer) -> int:
    return len(answer.prompt_ids) + len(answer.token_ids)
