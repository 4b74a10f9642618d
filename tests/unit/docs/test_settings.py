"""Every paceline.yaml that a page shows can be loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from documented_commands.pages import PAGES, PROJECT, blocks_of

from paceline.config import ConfigError, load_settings
from paceline.config.tree import Settings


def _settings_of(page: Path) -> list[tuple[int, str]]:
    """Line and text of the blocks that are settings: all their sections are Paceline's."""
    found = []
    for block in blocks_of(page.read_text(encoding="utf-8")):
        if block.language == "yaml":
            document: Any = yaml.safe_load(block.text)
            is_named = block.text.startswith("# paceline.yaml")
            sections = set(document) if isinstance(document, dict) else {""}
            if is_named or sections <= set(Settings.model_fields):
                found.append((block.line, block.text))
    return found


WITH_SETTINGS = [page for page in PAGES if _settings_of(page)]


@pytest.mark.parametrize(
    "page", WITH_SETTINGS, ids=lambda page: page.relative_to(PROJECT).as_posix()
)
def test_the_shown_settings_are_accepted(page: Path, tmp_path: Path) -> None:
    file = tmp_path / "paceline.yaml"
    for line, text in _settings_of(page):
        file.write_text(text, encoding="utf-8")
        try:
            load_settings({}, {}, file)
        except ConfigError as error:
            pytest.fail(f"{page.name}:{line}: {error}")


def test_an_unknown_setting_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "paceline.yaml"
    file.write_text("engine:\n  models: x\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"engine\.models"):
        load_settings({}, {}, file)
