"""The table of draft lengths for which vLLM captures full CUDA graphs.

A decode step runs in a full CUDA graph only if one exists for its 1 + length tokens per request.
Model Runner V2 captures graphs for the maximum length alone, or for the lengths that
`num_speculative_tokens_per_batch_size` names, at whatever batch size. Every other length, 0 too,
runs in piecewise graphs, slower than an engine without speculation. So the launcher names lengths,
and the governor chooses among them.

For one token count vLLM considers only the graphs of the next captured size
(`CudaGraphManager._init_candidates`). With lengths whose sizes interleave, that size often belongs
to another length, and the step runs piecewise: with 0, 1, 2, 4 and 8, at 113 of the first 256 batch
sizes at length 0. The captured sizes are multiples of 8, so lengths for which 1 + length is a power
of two share every size, and all batches up to the largest size have graphs
(`tests/engine/in_process/test_captured_lengths.py`). Under such a table Model Runner V1 has no full
graphs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

_V1_METHODS = ("suffix", "medusa", "mlp_speculator", "custom_class")
_V1_KEYS = ("use_heterogeneous_vocab", "parallel_drafting")
"""Methods, and keys of --speculative-config, with which vLLM uses Model Runner V1 on GPUs too."""

NamedLengths = list[list[int]]
"""A value of `num_speculative_tokens_per_batch_size`: [first batch size, last, draft length]."""


def lengths_to_name(max_draft_length: int, configured: Collection[int] = ()) -> tuple[int, ...]:
    """Return the lengths to capture, ascending: 0, 1, 3, 7, … up to the maximum, and `configured`.

    A configured length that is not of this form costs graphs at some batch sizes of all lengths.

    >>> lengths_to_name(8), lengths_to_name(8, configured=(4, 12))
    ((0, 1, 3, 7), (0, 1, 3, 4, 7))
    """
    within = {length for length in configured if 0 <= length <= max_draft_length}
    return tuple(sorted({*_one_less_than_powers(max_draft_length), *within}))


def render_length_table(
    lengths: Sequence[int], max_num_seqs: int | None = None
) -> NamedLengths | None:
    """Return a table that names `lengths`, the longest first; None where one request is the limit.

    vLLM reads the table up to `max_num_seqs`, so it holds at most that many lengths: the longest
    ones and 0. The last entry applies to all larger batches, and vLLM adds the largest batch of its
    length to the captured sizes. That entry names 0.

    >>> render_length_table((0, 1, 3, 7))
    [[1, 1, 7], [2, 2, 3], [3, 3, 1], [4, 4, 0]]
    >>> render_length_table((0, 1, 3, 7), max_num_seqs=2)
    [[1, 1, 7], [2, 2, 0]]
    """
    falling = sorted(lengths, reverse=True)
    if max_num_seqs is not None and max_num_seqs < len(falling):
        if max_num_seqs < 2:
            return None
        falling = [*falling[: max_num_seqs - 1], falling[-1]]
    return [[size, size, length] for size, length in enumerate(falling, start=1)]


def takes_length_table(speculative_config: Mapping[str, Any]) -> bool:
    """Return whether Model Runner V2 runs this drafter on GPUs, and so reads a table."""
    return speculative_config.get("method") not in _V1_METHODS and not any(
        speculative_config.get(key) for key in _V1_KEYS
    )


def is_length_table(table: Sequence[Sequence[int]]) -> bool:
    """Return whether a table only names lengths: every entry is one batch size.

    Anything else is a schedule that its author wants vLLM to follow where no governor runs.
    """
    return all(first == last for first, last, _ in table)


def _one_less_than_powers(max_draft_length: int) -> Iterator[int]:
    length = 0
    while length <= max_draft_length:
        yield length
        length = 2 * length + 1
