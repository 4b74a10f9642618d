"""What `--settings` says, as a change of the governors."""

from __future__ import annotations

import pytest

from paceline.workbench.bench.compare.arm_settings import parse_setting


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("off", {"draft_length": 0}),
        ("on", {}),
        ("draft_length=4", {"draft_length": 4}),
        ("draft-length=4", {"draft_length": 4}),
        ("policy=my-own_1", {"policy": "my-own_1"}),
        ("policy=goodput, ceiling=0", {"policy": "goodput", "ceiling": 0}),
    ],
)
def test_a_setting_is_a_change_of_what_was_found(text: str, change: dict[str, object]) -> None:
    assert parse_setting(text) == change


@pytest.mark.parametrize(
    "text",
    [
        "", "goodput", "On", "on,ceiling=4", "policy=", "length=4", "draft_length=-1",
        "draft_length=4.0", "draft_length=٤", "ceiling=2,ceiling=3", "ceiling=2,", "4",
        "ceiling=9999999999",
    ],
)  # fmt: skip
def test_another_text_is_refused_with_what_is_allowed(text: str) -> None:
    with pytest.raises(ValueError, match=r"it must be off, on .* or some of policy=NAME") as caught:
        parse_setting(text)
    assert str(caught.value).startswith(repr(text))
