"""The lengths that are named for CUDA graphs, and the table that names them."""

from __future__ import annotations

import pytest

from paceline.foundation.compatibility.length_table import (
    is_length_table,
    lengths_to_name,
    render_length_table,
)


@pytest.mark.parametrize(
    ("maximum", "configured", "named"),
    [
        (1, (), (0, 1)),
        (2, (), (0, 1)),
        (7, (), (0, 1, 3, 7)),
        (8, (), (0, 1, 3, 7)),
        (64, (), (0, 1, 3, 7, 15, 31, 63)),
        (8, (5, 0), (0, 1, 3, 5, 7)),
        (4, (9, -1), (0, 1, 3)),
    ],
)
def test_a_power_of_two_of_tokens_is_named_per_request(
    maximum: int, configured: tuple[int, ...], named: tuple[int, ...]
) -> None:
    assert lengths_to_name(maximum, configured) == named


@pytest.mark.parametrize(
    ("max_num_seqs", "table"),
    [
        (None, [[1, 1, 7], [2, 2, 3], [3, 3, 1], [4, 4, 0]]),
        (4, [[1, 1, 7], [2, 2, 3], [3, 3, 1], [4, 4, 0]]),
        (3, [[1, 1, 7], [2, 2, 3], [3, 3, 0]]),
        (2, [[1, 1, 7], [2, 2, 0]]),
        (1, None),
    ],
)
def test_the_table_fits_the_limit_on_requests(
    max_num_seqs: int | None, table: list[list[int]] | None
) -> None:
    """vLLM reads it up to that batch size; the longest lengths and 0 are kept."""
    assert render_length_table((0, 1, 3, 7), max_num_seqs) == table


def test_a_schedule_that_vllm_shall_follow_is_told_from_a_list_of_lengths() -> None:
    assert is_length_table([[1, 1, 7], [2, 2, 0]])
    assert not is_length_table([[1, 16, 3], [17, 64, 1]])
