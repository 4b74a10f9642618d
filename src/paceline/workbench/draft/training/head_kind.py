"""EAGLE-3 heads as a kind of drafter that `paceline draft train` makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from paceline.foundation.models.heads.folder import head_config_of, read_fitting_head, write_head
from paceline.foundation.models.heads.head import Eagle3Head, HeadConfig
from paceline.foundation.models.heads.initial import even_inputs, initial_head, plain_inputs
from paceline.foundation.models.heads.losses import LOSSES
from paceline.foundation.models.heads.states import StoredStates, aux_scales, store_states
from paceline.foundation.models.heads.training import HeadLesson
from paceline.foundation.models.heads.vocabulary import choose_tokens
from paceline.foundation.models.interruption import StopRequest
from paceline.foundation.models.models import load_config, load_model, serving_dtype
from paceline.foundation.models.progress import DraftProgress
from paceline.foundation.models.values import Answer, DraftError
from paceline.workbench.draft.training.kind import LossOf
from paceline.workbench.draft.training.work_folder import write_draft

NUM_PASSES = 4
"""Passes of a draft that are trained: what a head makes of its own hidden states varies little
after them."""
_SCALED_TEXTS = 16
"""Examples that show how large the target's states are; some thousands of tokens."""


@dataclass(frozen=True, slots=True)
class HeadKind:
    """A head that continues another one, or a new one."""

    target: Path
    before: Path | None
    """What it continues; None begins a new one."""
    draft_vocab_size: int
    """Of a new one."""
    always: tuple[int, ...]
    """Tokens that it can draft although no answer has them."""
    states: Path
    """File for the target's hidden states."""
    seed: int
    device: torch.device

    def num_parameters(self) -> int:
        with torch.device("meta"):
            head = Eagle3Head(self.config())
        return sum(parameter.numel() for parameter in head.parameters())

    def bytes_per_token(self) -> int:
        config = self.config()
        return 2 * (len(config.aux_layers) + 1) * config.hidden_size + 4

    def start(self, examples: Sequence[Answer]) -> Any:
        config = self.config()
        target = load_model(self.target, torch.float32, self.device)
        scales = aux_scales(target, examples[:_SCALED_TEXTS], config.aux_layers)
        if self.before is not None:
            head = read_fitting_head(self.before, self.target)
        else:
            tokens = choose_tokens(
                (answer.token_ids[: answer.num_tokens] for answer in examples),
                self.always,
                self.draft_vocab_size,
                config.vocab_size,
            )
            head = initial_head(config, target, tokens, scales, self.seed)
        head = head.to(self.device)
        even_inputs(head, scales)
        return head

    def lesson(
        self, examples: Sequence[Answer], loss: str, progress: DraftProgress, stop: StopRequest
    ) -> LossOf:
        config = self.config()
        target = load_model(self.target, serving_dtype(self.device), self.device)
        lengths = [len(answer.prompt_ids) + len(answer.token_ids) for answer in examples]
        try:
            stored = StoredStates(self.states, lengths, len(config.aux_layers), config.hidden_size)
            store_states(target, examples, config.aux_layers, stored, progress=progress, stop=stop)
        except OSError as error:
            raise DraftError(
                f"cannot write {self.states}: {error.strerror or error}. Free space and repeat the "
                "command with --resume"
            ) from error
        lesson = HeadLesson(target, examples, stored, LOSSES[loss], NUM_PASSES)
        return lambda head, batch: lesson.mean_loss(head, batch.indexes)

    def write(self, student: Any, folder: Path, provenance: Mapping[str, Any]) -> None:
        plain_inputs(student)
        write_draft(lambda scratch: write_head(student, scratch), None, folder, provenance)

    def config(self) -> HeadConfig:
        """The sizes of the head; DraftError where it does not fit the target."""
        if self.before is not None:
            return read_fitting_head(self.before, self.target).config
        return head_config_of(load_config(self.target), self.draft_vocab_size)
