"""The acceptance of a head on the target's answers, as it is served: from the recurrence over its
own passes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from paceline.foundation.models.acceptance.blocks import count_drafts
from paceline.foundation.models.acceptance.measure import PromptCounts
from paceline.foundation.models.acceptance.positions import accept_tokens
from paceline.foundation.models.heads.drafts import Drafts
from paceline.foundation.models.heads.head import Eagle3Head
from paceline.foundation.models.heads.states import states_of
from paceline.foundation.models.interruption import StopRequest
from paceline.foundation.models.progress import DraftProgress
from paceline.foundation.models.values import Answer


@torch.inference_mode()
def measure_head(
    target: Any,
    head: Eagle3Head,
    answers: Sequence[Answer],
    *,
    max_draft_length: int,
    progress: DraftProgress,
    stop: StopRequest,
) -> list[PromptCounts]:
    """One count per answer of two or more tokens. Answers need `max_draft_length` - 1 tokens of
    continuation. Raises Interrupted between two answers."""
    usable = [answer for answer in answers if answer.num_tokens > 1]
    progress.begin("acceptance of the head", len(usable))
    found = []
    for completed, answer in enumerate(usable, start=1):
        stop.raise_if_set()
        counts = count_drafts(
            *_accept(target, head, answer, max_draft_length),
            num_tokens=answer.num_tokens,
            max_draft_length=max_draft_length,
        )
        found.append(PromptCounts(answer.key, answer.conversation, answer.sampling, counts))
        progress.update(completed)
    return found


def _accept(
    target: Any, head: Eagle3Head, answer: Answer, max_draft_length: int
) -> tuple[list[list[float]], list[list[float]]]:
    """`realised` and `expected` of `count_drafts`."""
    [states] = states_of(target, [answer], head.config.aux_layers)
    text = torch.tensor((*answer.prompt_ids, *answer.token_ids), device=target.device)
    embedded = target.get_input_embeddings()(text).float()
    of_answer = slice(len(answer.prompt_ids) - 1, len(text) - 1)
    target_logits = target.get_output_embeddings()(states.last[of_answer]).float()
    written = text[len(answer.prompt_ids) :]
    num_starts = answer.num_tokens - 1  # drafts begin with the answer's tokens 1, 2, …
    first_row = len(answer.prompt_ids) - 1
    realised: list[list[float]] = [[] for _ in range(num_starts + 1)]
    expected: list[list[float]] = [[] for _ in range(num_starts + 1)]
    aux = states.aux.float()
    drafts = Drafts(head, aux[None], embedded[None], max_draft_length)
    drafts.keep((drafts.rows >= first_row) & (drafts.rows < first_row + num_starts))
    for number in range(1, max_draft_length + 1):
        logits = torch.full_like(target_logits[:num_starts], -torch.inf)
        logits[:, head.tokens] = head.logits(drafts.advance()[0])
        judged = slice(number, number + num_starts)
        accepted = accept_tokens(
            target_logits[judged], logits, written[judged], answer.sampling, samples_drafts=True
        )
        for start in range(num_starts):
            realised[start + 1].append(accepted.realised[start])
            expected[start + 1].append(accepted.expected[start])
    return realised, expected
