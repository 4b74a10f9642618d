"""A random target, a random draft for it, and prompts, written once for all tests of the room."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from paceline.foundation.models import models
from unit.draft.tiny_models import write_model, write_prompts


@dataclass(frozen=True, slots=True)
class TinyPair:
    """Folders of a target and a draft, and a file of prompts."""

    target: Path
    draft: Path
    prompts: Path


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> TinyPair:
    folder = tmp_path_factory.mktemp("pair")
    return TinyPair(
        target=write_model(folder / "target", seed=1, num_layers=2),
        draft=write_model(folder / "draft", seed=2),
        prompts=write_prompts(folder / "prompts.jsonl", 60),
    )


@pytest.fixture(autouse=True)
def _float32(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results do not depend on the processor, which would choose bfloat16 where it multiplies it.
    Figures of acceptance are exact only in float32."""
    monkeypatch.setattr(models, "choose_cpu_dtype", lambda flags: ("float32", ""))
