"""The comparison of a target's vocabulary with its draft's."""

from __future__ import annotations

from paceline.foundation.compatibility.vocabularies import VocabularyFit, compare_vocabularies


def numbered(*tokens: str) -> dict[str, int]:
    return {token: token_id for token_id, token in enumerate(tokens)}


WORDS = [f"word{i}" for i in range(150)]


def test_equal_vocabularies_share_everything() -> None:
    fit = compare_vocabularies(numbered(*WORDS), numbered(*WORDS))
    assert fit == VocabularyFit(has_same_ids=True, num_shared=150, num_target=150)
    assert fit.is_usable


def test_a_leading_space_is_compared_across_tokenizers() -> None:
    """GPT-2 writes it as U+0120, SentencePiece as U+2581."""
    fit = compare_vocabularies({"\u0120a": 0, "b": 1}, {"\u2581a": 0, "c": 1})
    assert (fit.num_shared, fit.num_target) == (1, 2)


def test_too_few_shared_tokens_are_unusable() -> None:
    """100 are enough, 99 are not. In reverse order, so that the ids differ."""
    target = numbered(*WORDS)
    assert compare_vocabularies(target, numbered(*reversed(WORDS[:100]))).is_usable
    assert not compare_vocabularies(target, numbered(*reversed(WORDS[:99]))).is_usable


def test_a_tiny_vocabulary_with_equal_ids_is_usable() -> None:
    assert compare_vocabularies({"a": 0}, {"a": 0}).is_usable
