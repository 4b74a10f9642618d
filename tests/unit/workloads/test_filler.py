"""Filler text has the wanted length, and equal keys give equal text."""

from __future__ import annotations

import pytest

from paceline.foundation.workloads import FillerText, heldout_text, probe_text


@pytest.mark.parametrize("num_tokens", [1, 2, 100, 5000])
def test_the_text_has_as_many_characters_as_the_tokens_need(num_tokens: int) -> None:
    filler = FillerText("some text of a program\n" * 20, chars_per_token=3.0)
    assert len(filler.prompt(num_tokens, "request 1")) == 3 * num_tokens


def test_keys_decide_the_text() -> None:
    filler = FillerText("some text of a program\n" * 20, chars_per_token=3.0)
    assert filler.prompt(50, "request 1") == filler.prompt(50, "request 1")
    assert filler.prompt(50, "request 1") != filler.prompt(50, "request 2")


def test_only_whole_blocks_are_shared() -> None:
    filler = FillerText("some text of a program\n" * 20, chars_per_token=1.0)
    first = filler.prompt(600, "request 1", (7, 8))
    second = filler.prompt(600, "request 2", (7, 8))
    assert first[:512] == second[:512]
    assert first[512:] != second[512:]


def test_the_probe_is_a_stretch_of_the_filler_text() -> None:
    assert probe_text(2000) == heldout_text()[:2000]


def test_a_rate_of_no_characters_is_refused() -> None:
    with pytest.raises(ValueError, match="chars_per_token is 0; it must be above 0"):
        FillerText("text", 0)
