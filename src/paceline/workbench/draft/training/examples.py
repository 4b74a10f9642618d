"""Training batches from the target's answers: which answers a step reads depends on the seed and
its number alone.

Every epoch shuffles the answers, sorts stretches of them by length, and cuts these into batches of
about equal numbers of tokens, which it shuffles again. So little is computed for padding, and a
resumed training reads what an uninterrupted one reads.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from paceline.foundation.models.values import Answer

STEP_TOKENS = 2048
"""Tokens of a batch, padding included. Small batches learn more per token at this size
(docs/experiments/bundled-pair.md)."""
_STRETCH = 256
"""Answers sorted together: long enough for equal lengths, short enough to keep the order random."""


@dataclass(frozen=True, slots=True)
class TrainingBatch:
    """Answers with their prompts, on the right filled up to the longest."""

    token_ids: Tensor
    """(num_answers, length), without each answer's last token."""
    is_drafted: Tensor
    """(num_answers, length - first): whether a draft predicts the next token there, from `first`
    on. Drafts predict all tokens of an answer but its first."""
    first: int
    """The first position at which any answer of the batch is drafted."""
    indexes: tuple[int, ...]
    """Of the answers."""


def trainable(answers: Sequence[Answer]) -> list[Answer]:
    """The answers that drafts predict: those of two or more tokens."""
    return [answer for answer in answers if answer.num_tokens > 1]


def batches_from(
    answers: Sequence[Answer], *, seed: int, step: int, step_tokens: int = STEP_TOKENS
) -> Iterator[TrainingBatch]:
    """An endless sequence of batches, from that of `step` on. `answers` must not be empty."""
    lengths = [len(answer.prompt_ids) + answer.num_tokens for answer in answers]
    for epoch in itertools.count():
        groups = _cut_epoch(lengths, seed, epoch, step_tokens)
        if step >= len(groups):
            step -= len(groups)
            continue
        for group in groups[step:]:
            yield _collate(answers, group)
        step = 0


def _cut_epoch(lengths: Sequence[int], seed: int, epoch: int, step_tokens: int) -> list[list[int]]:
    """Batches of indexes; each index occurs once."""
    rng = np.random.default_rng((seed, epoch))
    order = rng.permutation(len(lengths)).tolist()
    groups: list[list[int]] = []
    for start in range(0, len(order), _STRETCH):
        group: list[int] = []
        for index in sorted(order[start : start + _STRETCH], key=lengths.__getitem__):
            if group and lengths[index] * (len(group) + 1) > step_tokens:
                groups.append(group)
                group = []
            group.append(index)
        groups.append(group)
    return [groups[number] for number in rng.permutation(len(groups)).tolist()]


def _collate(all_answers: Sequence[Answer], indexes: Sequence[int]) -> TrainingBatch:
    answers = [all_answers[index] for index in indexes]
    rows = [torch.tensor((*a.prompt_ids, *a.token_ids[: a.num_tokens - 1])) for a in answers]
    token_ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    is_drafted = torch.zeros_like(token_ids, dtype=torch.bool)
    for row, answer in enumerate(answers):
        start = len(answer.prompt_ids)
        is_drafted[row, start : start + answer.num_tokens - 1] = True
    first = min(len(answer.prompt_ids) for answer in answers)
    return TrainingBatch(token_ids, is_drafted[:, first:], first, tuple(indexes))
