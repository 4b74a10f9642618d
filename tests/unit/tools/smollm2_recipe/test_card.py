"""The model card of the head beside the raw result that it shows."""

from __future__ import annotations

import json
from pathlib import Path

from smollm2_recipe.card import render_card

from paceline.foundation.named_models import smollm2
from paceline.runtime.engine.model_revision import revision_of_folder

PROJECT = Path(__file__).parents[4]
RESULT = "benchmarks/results/drafter-smollm2-2026-11-30.json"


def test_the_card_shows_the_result() -> None:
    evaluation = json.loads((PROJECT / RESULT).read_text(encoding="utf-8"))
    card = (smollm2.head_path() / "README.md").read_text(encoding="utf-8")
    assert card == render_card(evaluation, RESULT)
    assert evaluation["draft"]["revision"] == revision_of_folder(smollm2.head_path())
