"""The committed model card is the one that the recipe renders from the committed figures."""

from __future__ import annotations

import json

from demo_recipe.card import render_card

from paceline.demo import target_path


def test_the_card_follows_from_the_figures() -> None:
    folder = target_path().parent
    figures = json.loads((folder / "figures.json").read_text())
    assert (folder / "README.md").read_text() == render_card(figures)
