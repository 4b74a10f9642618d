"""Capture is off by default, and refuses bounds that cannot be kept."""

from __future__ import annotations

import pytest

from paceline.config import Settings
from paceline.gateway.settings import CaptureSettings
from paceline.serve.plan import gateway_settings


def test_nothing_is_kept_by_default() -> None:
    assert gateway_settings(Settings()).capture.folder is None


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"share": 0.0}, "more than 0 and at most 1"),
        ({"share": 1.5}, "more than 0 and at most 1"),
        ({"max_bytes": 1024}, "at least 16777216"),
        ({"max_age_s": 5.0}, "at least 60 seconds"),
        ({"redact": "ourpackage.redact"}, "module:function"),
        ({"redact": "our package:redact"}, "module:function"),
    ],
)
def test_values_out_of_range_are_refused(changes: dict[str, object], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        CaptureSettings(**changes)  # type: ignore[arg-type]
