"""The tokens that a head can draft: the most frequent ones of the target's answers.

A head's output layer is most of its cost, and few tokens make up nearly all of a text. A token
outside is never drafted, which costs acceptance where the target writes it, and changes no answer.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence


def choose_tokens(
    answers: Iterable[Sequence[int]], always: Collection[int], size: int, vocab_size: int
) -> list[int]:
    """`size` different token ids, ascending: those of `always`, then the most frequent ones.

    Where the answers have fewer, the lowest other ids fill up: tokenizers number frequent tokens
    first.

    >>> choose_tokens([[5, 5, 7], [9, 7, 5]], always=[1], size=3, vocab_size=10)
    [1, 5, 7]
    """
    counts = Counter(token for answer in answers for token in answer)
    by_frequency = sorted(counts, key=lambda token: (-counts[token], token))
    chosen = dict.fromkeys([*sorted(always), *by_frequency, *range(vocab_size)])
    return sorted(list(chosen)[:size])
