"""`paceline-provenance.json`: what a draft was made from, how, and whether it was promoted."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Any

import paceline
from paceline.foundation.models.acceptance import AcceptanceFigures
from paceline.foundation.models.values import Sampling
from paceline.workbench.draft.training.distil import TrainingPlan, TrainingState
from paceline.workbench.draft.training.promotion import Promotion

FILE_NAME = "paceline-provenance.json"
_SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Comparison:
    """Candidate and present draft on the held-out prompts, under one sampling or all together."""

    present: AcceptanceFigures | None
    """None for a new draft, which nothing was given to compare with."""
    candidate: AcceptanceFigures
    difference: AcceptanceFigures | None
    """Candidate minus present, paired by conversation."""


@dataclass(frozen=True, slots=True)
class DraftOrigin:
    """Where a draft comes from."""

    target: str
    target_revision: str
    start: str
    """The draft that the training started from, or which layers of the target."""
    start_revision: str | None
    present: str | None
    """What the candidate was compared with."""
    prompts_sha256: str
    num_trained: int
    num_held_out: int


def render_unmeasured() -> dict[str, Any]:
    """The document of a draft before its comparison: it is not promoted."""
    return {
        "schema_version": _SCHEMA_VERSION,
        "kind": "paceline draft",
        "promoted": False,
        "reason": "its acceptance was not measured yet; complete the training with --resume",
    }


def render_provenance(
    origin: DraftOrigin,
    plan: TrainingPlan,
    state: TrainingState,
    max_draft_length: int,
    overall: Comparison,
    by_sampling: Mapping[Sampling, Comparison],
    promotion: Promotion,
) -> dict[str, Any]:
    """The document. `promoted` is what a deployment has to check."""
    return {
        "schema_version": _SCHEMA_VERSION,
        "kind": "paceline draft",
        "promoted": promotion.is_promoted,
        "reason": promotion.reason,
        "date_utc": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "origin": asdict(origin),
        "training": {
            "loss": plan.loss,
            "seed": plan.seed,
            "num_steps": state.step,
            "minutes": plan.minutes,
            "rate_scale": plan.rate_scale,
            "adam_scale": plan.adam_scale,
            "seconds": round(state.seconds, 1),
            "last_loss": state.last_loss,
        },
        "held_out": {
            "max_draft_length": max_draft_length,
            "overall": asdict(overall),
            "by_sampling": [
                {"sampling": asdict(sampling), **asdict(comparison)}
                for sampling, comparison in by_sampling.items()
            ],
        },
        "versions": {
            "paceline": paceline.__version__,
            "python": platform.python_version(),
            "torch": metadata.version("torch"),
            "transformers": metadata.version("transformers"),
        },
    }
