"""`--print-config` shows the effective settings."""

from __future__ import annotations

from pathlib import Path

from paceline.runtime.config import load_settings
from paceline.runtime.config.printing import render_settings
from paceline.runtime.config.sources import SETTING_KEYS


def test_the_printed_settings_can_be_used_as_the_file(tmp_path: Path) -> None:
    """Loading the output gives the same settings, including lists and None."""
    environ = {
        "PACELINE_ENGINE__VLLM_ARGS": '["--x", "a b", "1"]',
        "PACELINE_ENGINE__SCHEDULE": "[[1, 8, 4]]",
        "PACELINE_ENGINE__MODEL": "yes",
        "PACELINE_SERVER__GRANTED_FIELDS": '["priority"]',
    }
    loaded = load_settings({}, environ)
    file = tmp_path / "p.yaml"
    file.write_text(render_settings(loaded))
    assert load_settings({}, {}, file).settings == loaded.settings


def test_printed_remote_replicas_can_be_loaded_again(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(
        "replicas: [{url: 'http://a:1', drafts: true, key_file: k}, {dns: 'b:2', dialect: tgi}]\n"
    )
    loaded = load_settings({}, {}, file)
    assert [replica.dialect for replica in loaded.settings.replicas] == ["vllm", "tgi"]
    file.write_text(render_settings(loaded))
    assert load_settings({}, {}, file).settings == loaded.settings


def test_each_setting_is_printed_with_its_description_and_origin() -> None:
    text = render_settings(load_settings({("server", "port"): ("--port", 81)}, {}))
    assert "  # Data port, with the OpenAI API; 0 for any free port.\n" in text
    assert "  port: 81  # flag --port\n" in text
    for *section, name in SETTING_KEYS:
        indent = "  " * len(section)
        assert f"\n{indent}{name}: " in text or f"\n{indent}# {name}:  # default\n" in text
