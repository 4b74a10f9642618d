"""`DrafterKind`: what a training needs to know of the drafter that it makes.

`model_kind` is for draft models, `head_kind` for EAGLE-3 heads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from torch import Tensor

from paceline.foundation.models.interruption import StopRequest
from paceline.foundation.models.progress import DraftProgress
from paceline.foundation.models.values import Answer
from paceline.workbench.draft.training.examples import TrainingBatch

LossOf = Callable[[Any, TrainingBatch], Tensor]
"""Mean loss of a student, a torch module in float32, on a batch."""


class DrafterKind(Protocol):
    """One kind of drafter, of one target."""

    def num_parameters(self) -> int:
        """Of a drafter, without loading anything."""
        ...

    def bytes_per_token(self) -> int:
        """Kept on disk of each token of the prompts and answers, beside the token."""
        ...

    def start(self, examples: Sequence[Answer]) -> Any:
        """The student before its first step, the same for the same `examples`."""
        ...

    def lesson(
        self, examples: Sequence[Answer], loss: str, progress: DraftProgress, stop: StopRequest
    ) -> LossOf:
        """The loss called `loss`, for batches of `examples`; it may take hours to prepare them."""
        ...

    def write(self, student: Any, folder: Path, provenance: Mapping[str, Any]) -> None:
        """Write the folder that vLLM loads; replaces it whole. DraftError if that fails. The
        student is not trained on."""
        ...
