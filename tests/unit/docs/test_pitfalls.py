"""The page of pitfalls names findings of the doctor and settings that exist."""

from __future__ import annotations

import re

import pytest
from documented_commands.pages import PROJECT

from paceline.operations.doctor.checks import CHECKS
from paceline.runtime.config.tree import Settings

TEXT = (PROJECT / "docs" / "pitfalls.md").read_text(encoding="utf-8")
IDS = frozenset(finding for check in CHECKS for finding in check.finding_ids)
SECTIONS = Settings.model_fields


def _code() -> list[str]:
    return re.findall(r"`([^`\n]+)`", TEXT)


def test_the_named_findings_exist() -> None:
    """A finding stands in brackets after the sign."""
    named = [
        name
        for group in re.findall(r"\((`[a-z0-9-]+`(?:, `[a-z0-9-]+`)*)\)", TEXT)
        for name in re.findall(r"`([^`]+)`", group)
    ]
    assert len(named) > 20
    assert [name for name in named if name not in IDS] == []


def test_every_finding_about_speculation_load_or_start_has_a_pitfall() -> None:
    wanted = {
        name
        for name in IDS
        if name.startswith(("speculation-", "draft-", "queue-", "descriptors-", "kv-", "prefill-"))
    }
    assert len(wanted) >= 10
    assert sorted(name for name in wanted if f"`{name}`" not in TEXT) == []


@pytest.mark.parametrize("section", sorted(SECTIONS))
def test_the_named_settings_exist(section: str) -> None:
    known = getattr(SECTIONS[section].annotation, "model_fields", {})
    named = {
        match[1]
        for code in _code()
        if (match := re.match(rf"{section}\.([a-z_]+)", code)) and known
    }
    assert named <= set(known)
