"""Prompts of given lengths: their spread, and that equal seeds give equal prompts."""

from __future__ import annotations

import pytest

from paceline.foundation.workloads import FillerText, SyntheticLengths

FILLER = FillerText("some text of a program\n" * 500, chars_per_token=2.0)


def test_without_a_spread_all_lengths_are_the_given_ones() -> None:
    prompts = list(SyntheticLengths(30, 7).prompts(3, 5, FILLER))
    assert [(len(p.text or ""), p.input_tokens, p.max_tokens) for p in prompts] == [(60, 30, 7)] * 3
    assert all(p.ignore_eos for p in prompts)
    assert len({p.text for p in prompts}) == 3


def test_lengths_are_spread_evenly_and_independently() -> None:
    """From 75 to 125 and from 15 to 25, each value about equally often."""
    prompts = list(SyntheticLengths(100, 20, 0.25).prompts(2000, 0, FILLER))
    inputs = [p.input_tokens or 0 for p in prompts]
    outputs = [p.max_tokens or 0 for p in prompts]
    assert (min(inputs), max(inputs)) == (75, 125)
    assert (min(outputs), max(outputs)) == (15, 25)
    assert abs(sum(inputs) / 2000 - 100) < 2
    assert len(set(zip(inputs, outputs, strict=True))) > 400


def test_a_longer_row_of_a_seed_begins_with_the_shorter_one() -> None:
    lengths = SyntheticLengths(50, 10, 0.5)
    assert list(lengths.prompts(9, 3, FILLER))[:4] == list(lengths.prompts(4, 3, FILLER))
    assert list(lengths.prompts(4, 3, FILLER)) != list(lengths.prompts(4, 4, FILLER))


def test_a_length_of_one_stays_one() -> None:
    (prompt,) = SyntheticLengths(1, 1, 0.9).prompts(1, 0, FILLER)
    assert (prompt.input_tokens, prompt.max_tokens, len(prompt.text or "")) == (1, 1, 2)


@pytest.mark.parametrize("lengths", [(0, 1), (1, 0), (1, 1, 1.0), (1, 1, -0.1)])
def test_lengths_that_cannot_be_are_refused(lengths: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="it must be at least"):
        SyntheticLengths(*lengths)
