"""Draft models: transformers' causal language models with the target's tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from paceline.foundation.distillation.losses import LOSSES
from paceline.foundation.models.interruption import StopRequest
from paceline.foundation.models.models import load_config, load_model, num_parameters
from paceline.foundation.models.progress import DraftProgress
from paceline.foundation.models.values import Answer
from paceline.workbench.draft.training.examples import TrainingBatch
from paceline.workbench.draft.training.kind import LossOf
from paceline.workbench.draft.training.start import cut_from_target, shrink_config
from paceline.workbench.draft.training.work_folder import write_draft


@dataclass(frozen=True, slots=True)
class DraftModelKind:
    """A draft model that continues another one, or is cut from the target's layers."""

    target: Path
    before: Path | None
    """What it continues; None cuts it from the target."""
    num_layers: int
    """Of one that is cut."""
    device: torch.device

    def num_parameters(self) -> int:
        if self.before is not None:
            return num_parameters(load_config(self.before))
        return num_parameters(shrink_config(load_config(self.target), self.num_layers))

    def bytes_per_token(self) -> int:
        return 0

    def start(self, examples: Sequence[Answer]) -> Any:
        if self.before is not None:
            return load_model(self.before, torch.float32, self.device)
        return cut_from_target(load_model(self.target, torch.float32, self.device), self.num_layers)

    def lesson(
        self, examples: Sequence[Answer], loss: str, progress: DraftProgress, stop: StopRequest
    ) -> LossOf:
        teacher = load_model(self.target, torch.bfloat16, self.device)
        return partial(mean_loss, teacher=teacher, loss=loss)

    def write(self, student: Any, folder: Path, provenance: Mapping[str, Any]) -> None:
        write_draft(
            lambda scratch: student.to(torch.bfloat16).save_pretrained(scratch),
            self.target,
            folder,
            provenance,
        )


def mean_loss(student: Any, batch: TrainingBatch, *, teacher: Any, loss: str) -> torch.Tensor:
    """Over the drafted tokens. Only their logits are computed, and those between them."""
    device = student.device
    token_ids = batch.token_ids.to(device)
    is_drafted = batch.is_drafted.to(device)
    kept = torch.arange(batch.first, token_ids.shape[1], device=device)
    num_shared = min(model.config.get_text_config().vocab_size for model in (student, teacher))

    def logits_of(model: Any) -> torch.Tensor:
        output = model(input_ids=token_ids, use_cache=False, logits_to_keep=kept)
        selected: torch.Tensor = output.logits[is_drafted][:, :num_shared]
        return selected.float()

    with torch.autocast(device.type, dtype=torch.bfloat16):
        with torch.no_grad():
            target_logits = logits_of(teacher)
        draft_logits = logits_of(student)
    return LOSSES[loss](target_logits, draft_logits).mean()
