"""What can be done with each drafter."""

from __future__ import annotations

import pytest

from paceline.engine.drafters import DRAFTERS, drafter_control, missing_for_drafter


@pytest.mark.parametrize(
    ("method", "how"),
    [
        ("draft_model", "ask"),
        ("ngram", "ask"),
        ("eagle3", "ask"),
        ("deepseek_mtp", "ask"),
        ("suffix", "trim"),
        ("custom_class", "trim"),
        ("medusa", "refuse"),
        ("ngram_gpu", "refuse"),
        ("crystal_ball", "refuse"),
    ],
)
def test_every_drafter_is_controlled_or_refused(method: str, how: str) -> None:
    """With a reason either way."""
    control = drafter_control(method, use_v2_model_runner=False)
    assert control.how == how
    assert control.why


@pytest.mark.parametrize(
    ("method", "how"),
    [
        ("draft_model", "cut"),
        ("ngram", "cut"),
        ("dflash", "cut"),
        ("eagle3", "ask"),
        ("deepseek_mtp", "ask"),
        ("suffix", "trim"),
        ("medusa", "refuse"),
    ],
)
def test_model_runner_v2_asks_only_drafters_that_sit_on_the_target(method: str, how: str) -> None:
    """The others draft the maximum at every length, and the reason says what that costs."""
    control = drafter_control(method, use_v2_model_runner=True)
    assert control.how == how
    assert how != "cut" or "saves verification, not drafting" in control.why


def test_a_missing_package_is_named_with_its_command() -> None:
    """Suffix decoding needs arctic-inference; the others need nothing."""
    missing = missing_for_drafter("suffix")
    assert missing is None or "pip install arctic-inference" in missing
    assert [missing_for_drafter(method) for method in DRAFTERS if method != "suffix"] == [None] * (
        len(DRAFTERS) - 1
    )
