"""Capture is off by default, and refuses bounds that cannot be kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline.runtime.config import Settings
from paceline.runtime.gateway.settings import CaptureSettings
from paceline.runtime.serve.plan import gateway_settings


def test_nothing_is_kept_by_default() -> None:
    assert gateway_settings(Settings()).capture.folder is None


def test_a_share_of_0_is_allowed(tmp_path: Path) -> None:
    """It keeps no more prompts, in a folder that is still looked after."""
    settings = Settings.model_validate({"capture": {"folder": tmp_path, "share": 0}})
    assert gateway_settings(settings).capture == CaptureSettings(folder=tmp_path, share=0.0)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"share": -0.1}, "at least 0, which keeps no more prompts, and at most 1"),
        ({"share": 1.5}, "at least 0, which keeps no more prompts, and at most 1"),
        ({"max_bytes": 1024}, "at least 16777216"),
        ({"max_age_s": 5.0}, "at least 60 seconds"),
        ({"redact": "ourpackage.redact"}, "module:function"),
        ({"redact": "our package:redact"}, "module:function"),
    ],
)
def test_values_out_of_range_are_refused(changes: dict[str, object], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        CaptureSettings(**changes)  # type: ignore[arg-type]
