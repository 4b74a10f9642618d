"""The target's hidden states of texts: what a head reads, and what it learns to predict.

Computed once, with transformers, and kept in a file of 16-bit numbers: a training reads every text
several times, and the target's pass costs more than the head's. A second file has the number of
batches that are on disk, so an interrupted run continues with the next one.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from paceline.foundation.models.interruption import StopRequest
from paceline.foundation.models.passes import PromptedText, batches
from paceline.foundation.models.progress import DraftProgress
from paceline.foundation.models.values import DraftError
from paceline.foundation.results.files import write_bytes

_ROWS_AT_ONCE = 128
"""Whose logits over the whole vocabulary are in memory. Chosen: 24 MiB at 49,152 tokens."""


@dataclass(frozen=True, slots=True)
class TextStates:
    """Hidden states of one text and its prompt; a row per token."""

    aux: Tensor
    """Of the head's layers, (num_tokens, num_aux * hidden_size)."""
    last: Tensor
    """Before the target's output layer, (num_tokens, hidden_size)."""


class StoredStates:
    """The states of some texts by their index, in a file that is mapped into memory."""

    def __init__(self, path: Path, lengths: Sequence[int], num_aux: int, hidden_size: int) -> None:
        """`lengths`: tokens of each text with its prompt. Opens the file where it has the states of
        texts of these lengths, else creates it. Raises OSError."""
        self._path, self._count = path, path.with_suffix(".batches")
        self._starts = [0, *accumulate(lengths)]
        self._aux_size = num_aux * hidden_size
        width = self._aux_size + hidden_size + 2  # a float32 is two numbers of 16 bits
        num_values = self._starts[-1] * width
        if not path.exists() or path.stat().st_size != 2 * num_values:
            self._count.unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            with path.open("wb") as file:  # a page without space would end the process
                os.posix_fallocate(file.fileno(), 0, 2 * num_values)
        self._rows = torch.from_file(
            str(path), shared=True, size=num_values, dtype=torch.bfloat16
        ).view(-1, width)

    def __getitem__(self, index: int) -> TextStates:
        rows = self._rows[self._starts[index] : self._starts[index + 1]]
        return TextStates(rows[:, : self._aux_size], rows[:, self._aux_size : -2])

    def log_normalisers(self, index: int) -> Tensor:
        """The logarithm of the sum of the exponentials of the target's logits, at each token of the
        text, (num_tokens,) in float32, and 0 in the prompt: a head that has a part of the
        vocabulary needs no other logits than those of its tokens."""
        rows = self._rows[self._starts[index] : self._starts[index + 1], -2:]
        return rows.contiguous().view(torch.float32)[:, 0]

    @property
    def num_batches(self) -> int:
        """Batches that are on disk."""
        return int(self._count.read_text()) if self._count.exists() else 0

    def keep(self, num_batches: int) -> None:
        """Write what was put to the disk, then the number of batches. Raises OSError."""
        with self._path.open("rb+") as file:
            os.fsync(file.fileno())
        write_bytes(self._count, str(num_batches).encode())

    def put(self, index: int, states: TextStates, log_normalisers: Tensor) -> None:
        """Store the states of one text, rounded to 16 bits, and its `log_normalisers`."""
        rows = self._rows[self._starts[index] : self._starts[index + 1]]
        rows[:, : self._aux_size] = states.aux
        rows[:, self._aux_size : -2] = states.last
        rows[:, -2:] = log_normalisers.unsqueeze(-1).contiguous().view(torch.bfloat16)


@dataclass(frozen=True, slots=True)
class _Indexed:
    index: int
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]


@torch.inference_mode()
def store_states(
    target: Any,
    texts: Sequence[PromptedText],
    aux_layers: Sequence[int],
    stored: StoredStates,
    *,
    progress: DraftProgress,
    stop: StopRequest,
) -> None:
    """Compute and store the states that are missing. Raises Interrupted between two batches."""
    progress.begin("hidden states", len(texts))
    completed, num_stored = 0, stored.num_batches
    indexed = [_Indexed(i, text.prompt_ids, text.token_ids) for i, text in enumerate(texts)]
    size = target.config.hidden_size * (len(aux_layers) + 1)
    for number, batch in enumerate(batches(indexed, size), start=1):
        if number > num_stored:
            stop.raise_if_set()
            for text, states in zip(batch, states_of(target, batch, aux_layers), strict=True):
                stored.put(
                    text.index, states, log_normalisers_of(target, states, len(text.prompt_ids))
                )
            stored.keep(number)
        completed += len(batch)
        progress.update(completed)


@torch.no_grad()
def aux_scales(target: Any, texts: Sequence[PromptedText], aux_layers: Sequence[int]) -> Tensor:
    """The root mean square of each auxiliary number in some texts, (num_aux * hidden_size,), but
    for their first tokens."""
    found = [states_of(target, [text], aux_layers)[0].aux.float() for text in texts]
    # What a model keeps at the first token is a sink of attention, up to a thousand times as large.
    return torch.cat([aux[1:] for aux in found]).square().mean(dim=0).sqrt().clamp(min=1e-6)


def states_of(
    target: Any, texts: Sequence[PromptedText], aux_layers: Sequence[int]
) -> list[TextStates]:
    """The states of a batch. `aux_layers` i is what the target's layer i reads, as in vLLM; of the
    last layer's output, transformers has only the normed one."""
    if max(aux_layers) >= target.config.num_hidden_layers:
        raise DraftError(
            f"the head reads the output of the target's last layer, {max(aux_layers)}, before its "
            "norm, which transformers does not show"
        )
    rows = [torch.tensor((*text.prompt_ids, *text.token_ids)) for text in texts]
    token_ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).to(target.device)
    output = target.model(input_ids=token_ids, use_cache=False, output_hidden_states=True)
    aux = torch.cat([output.hidden_states[layer] for layer in aux_layers], dim=-1)
    return [
        TextStates(aux[row, : len(ids)], output.last_hidden_state[row, : len(ids)])
        for row, ids in enumerate(rows)
    ]


def log_normalisers_of(target: Any, states: TextStates, num_prompt: int) -> Tensor:
    """`StoredStates.log_normalisers`, of the states as they are stored, in 16 bits."""
    output = target.get_output_embeddings()
    found = [torch.zeros(num_prompt)]
    for rows in torch.split(states.last[num_prompt:].bfloat16(), _ROWS_AT_ONCE):
        logits = output(rows.to(output.weight.dtype)).float()
        # Faster on a CPU than logsumexp.
        found.append((logits[:, 0] - logits.log_softmax(dim=-1)[:, 0]).cpu())
    return torch.cat(found)
