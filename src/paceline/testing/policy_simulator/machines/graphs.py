"""The stairs of CUDA graphs: how many tokens a step is padded to, and whether in a full graph.

As vLLM's Model Runner V2 finds the graph of a step. A full graph is for one number of tokens per
request, and a step finds only the graphs of the next size that has any. All other steps are padded
to the next size and run in piecewise graphs; beyond the largest size no step is padded.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from itertools import product


@dataclass(frozen=True, slots=True)
class GraphSizes:
    """Captured graph sizes, ascending.

    >>> graphs = GraphSizes((1, 2, 4, 8))
    >>> graphs.pad(5), graphs.pad(9), GraphSizes().pad(5)
    (8, 9, 5)
    """

    sizes: tuple[int, ...] = ()
    draft_lengths: tuple[int, ...] | None = None
    """Draft lengths with full graphs. None where no step differs from others of its size."""

    def pad(self, tokens: float) -> float:
        """The tokens that a step outside of full graphs computes."""
        return _next(self.sizes, tokens)

    def find(self, tokens: float, tokens_per_request: int | None) -> tuple[float, bool]:
        """The tokens that a step computes, and whether it runs in a full graph.

        `tokens_per_request` is None where requests differ, or one is prefilling.

        >>> GraphSizes((1, 2, 4, 8), draft_lengths=(0, 1)).find(6, 2)
        (8, True)
        >>> GraphSizes((1, 2, 4, 8), draft_lengths=(0, 2)).find(4, 2)  # length 1 has no graphs
        (4, False)
        """
        if self.draft_lengths is None:
            return self.pad(tokens), True
        graphs = _full_graphs(self.sizes, self.draft_lengths)
        size = _next(tuple(graphs), tokens)
        if tokens_per_request in graphs.get(int(size), ()):
            return size, True
        return self.pad(tokens), False


NO_GRAPHS = GraphSizes()


def _next(sizes: tuple[int, ...], tokens: float) -> float:
    index = bisect_left(sizes, tokens)
    return sizes[index] if index < len(sizes) else tokens


@lru_cache
def _full_graphs(
    sizes: tuple[int, ...], draft_lengths: tuple[int, ...]
) -> dict[int, tuple[int, ...]]:
    """Tokens per request of the full graphs, by their size, ascending.

    A size is rounded up to a multiple of each, and left out where that exceeds the largest size.
    """
    found: dict[int, tuple[int, ...]] = {}
    for size, length in product(sizes, draft_lengths):
        each = 1 + length
        rounded = -(-size // each) * each
        if rounded <= sizes[-1] and each not in found.get(rounded, ()):
            found[rounded] = (*found.get(rounded, ()), each)
    return dict(sorted(found.items()))
