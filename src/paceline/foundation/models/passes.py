"""One pass of a model over prompts with their answers, in batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

_MAX_BATCH_TOKENS = 4096
_MAX_BATCH_LOGITS = 32 * 1024**2
"""Chosen: bounds the logits of a batch to 128 MiB per model, one text at least."""


class PromptedText(Protocol):
    """A text after a prompt. Neither is empty."""

    @property
    def prompt_ids(self) -> tuple[int, ...]:
        """Tokens of the prompt."""
        ...

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Tokens of the text."""
        ...


T = TypeVar("T", bound=PromptedText)


def batches(texts: Iterable[T], vocab_size: int) -> Iterator[list[T]]:
    """The texts by length, within the bounds of a batch."""
    limit = min(_MAX_BATCH_TOKENS, _MAX_BATCH_LOGITS // vocab_size)
    batch: list[T] = []
    for text in sorted(texts, key=_length):
        if batch and _length(text) * (len(batch) + 1) > limit:
            yield batch
            batch = []
        batch.append(text)
    if batch:
        yield batch


def text_logits(model: Any, batch: Sequence[PromptedText]) -> list[Tensor]:
    """For each text the logits of its tokens, (num_tokens, vocab_size) in float32.

    Texts are padded on the right, which causal models ignore.
    """
    rows = [torch.tensor((*text.prompt_ids, *text.token_ids)) for text in batch]
    token_ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(model.device)
    first = min(len(text.prompt_ids) for text in batch) - 1
    kept = torch.arange(first, token_ids.shape[1] - 1, device=model.device)
    logits = model(input_ids=token_ids[:, :-1], use_cache=False, logits_to_keep=kept).logits
    starts = [len(text.prompt_ids) - 1 - first for text in batch]
    return [
        logits[row, start : start + len(text.token_ids)].float()
        for row, (start, text) in enumerate(zip(starts, batch, strict=True))
    ]


def _length(text: PromptedText) -> int:
    return len(text.prompt_ids) + len(text.token_ids)
