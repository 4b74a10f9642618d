"""Replay scoring on recorded texts."""

from __future__ import annotations

import numpy as np

from benchmarks.governor.recorded_drafts.finished_text import score_finished_text


def test_drafts_begin_where_short_ones_would_have_and_end_with_the_text() -> None:
    """8 tokens came. A draft at 0 has 1 of 8 accepted, the next begins at 2: 3 of 8; then at 5 (2
    and one more): 8 of 8, but only 3 tokens are left, all accepted."""
    recorded = np.array([[1, 0, 3, 0, 0, 8, 0, 0, 0, 0]])
    missed = np.array([0])
    found = score_finished_text(recorded, np.array([8]), missed, 128)
    assert found.drafts == ((8, 1), (8, 3), (3, 3))
    assert found.slots == (0, 0, 0)
    assert (found.num_requests, found.computed_tokens, found.missing_tokens) == (1, 8, 0)


def test_missed_tokens_are_computed_first() -> None:
    """A prompt of 250 and 4 tokens of text were missed: 128 tokens reach no text, the next 128
    reach its end."""
    recorded, missed = np.array([[0, 0, 0, 0, 0]]), np.array([254])
    first = score_finished_text(recorded, np.array([4]), missed, 128)
    assert (first.drafts, first.computed_tokens, first.missing_tokens) == ((), 128, 126)
    second = score_finished_text(recorded, np.array([4]), missed, 128)
    assert (second.drafts, second.computed_tokens) == (((8, 0),) * 4, 126)
    assert missed.tolist() == [0]
