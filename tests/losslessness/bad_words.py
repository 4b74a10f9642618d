"""The token sequences that vLLM prohibits for bad words, from vLLM itself."""

from __future__ import annotations

from collections.abc import Sequence


def token_sequences(model: str, words: Sequence[str]) -> list[list[int]]:
    """What `SamplingParams(bad_words=words)` prohibits; runs in the engine's process.

    A text may still contain a word, by other tokens.
    """
    from vllm import SamplingParams
    from vllm.tokenizers import get_tokenizer

    parameters = SamplingParams(bad_words=list(words))
    parameters.update_from_tokenizer(get_tokenizer(model))
    return [list(ids) for ids in parameters.bad_words_token_ids or []]


def contains(token_ids: Sequence[int], sequences: Sequence[Sequence[int]]) -> bool:
    """Whether one of the sequences occurs in the tokens."""
    return any(
        list(token_ids[start : start + len(sequence)]) == list(sequence)
        for sequence in sequences
        for start in range(len(token_ids) - len(sequence) + 1)
    )
