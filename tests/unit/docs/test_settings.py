"""Every paceline.yaml that a page shows can be loaded, and every setting it names exists."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from documented_commands.pages import PAGES, PROJECT, blocks_of

from paceline.runtime.config import ConfigError, load_settings
from paceline.runtime.config.tree import Settings


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


def _setting_names() -> dict[str, set[str]]:
    """The names of the settings of each section; for a list, those of its entries."""
    return {
        section: {
            name
            for kind in (field.annotation, *get_args(field.annotation))
            for name in getattr(kind, "model_fields", {})
        }
        for section, field in Settings.model_fields.items()
    }


SETTINGS = _setting_names()
_MODULES = PROJECT / "src/paceline"
_NAMED = re.compile(rf"(?<![\w./-])({'|'.join(SETTINGS)})\.([a-z_]+)(?![\w/.(-])")


def unknown_settings(text: str) -> list[str]:
    """What stands between backticks as a setting of a section, and is neither that nor a module."""
    return [
        f"{section}.{name}"
        for code in re.findall(r"`([^`\n]+)`", text)
        for section, name in _NAMED.findall(code)
        if name not in SETTINGS[section]
        and not list(_MODULES.glob(f"*/{section}/{name}*"))
        and name != "arg_utils"  # a module of vLLM
    ]


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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_the_named_settings_exist(page: Path) -> None:
    assert unknown_settings(page.read_text(encoding="utf-8")) == []


def test_a_setting_that_does_not_exist_is_found() -> None:
    text = "`server.port`, `replicas.key_file`, `server.max_answer_bytes: 5`, `engine.process`"
    assert unknown_settings(text) == ["server.max_answer_bytes"]
