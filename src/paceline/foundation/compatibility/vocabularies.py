"""Compare the vocabularies of a target and its draft model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MIN_SHARED_TOKENS = 100
"""The number of shared tokens below which vLLM warns (`v1/spec_decode/vocab_mapping.py`)."""

Vocabulary = Mapping[str, int]
"""Token to id, added tokens included."""


@dataclass(frozen=True, slots=True)
class VocabularyFit:
    """How two vocabularies relate."""

    has_same_ids: bool
    """Every token has the same id in both."""
    num_shared: int
    """Tokens of the target that the draft also has, compared by their text as vLLM does."""
    num_target: int
    """Tokens of the target."""

    @property
    def is_usable(self) -> bool:
        """Whether vLLM can draft across the two vocabularies."""
        return self.has_same_ids or self.num_shared >= MIN_SHARED_TOKENS


def compare_vocabularies(target: Vocabulary, draft: Vocabulary) -> VocabularyFit:
    """Compare token ids, and the texts of the tokens where the ids differ."""
    if target == draft:
        return VocabularyFit(True, len(target), len(target))
    texts = set(map(_text_of_token, target))
    return VocabularyFit(False, len(texts & set(map(_text_of_token, draft))), len(target))


def _text_of_token(token: str) -> str:
    """Return a token with its leading-space marker (of GPT-2 or SentencePiece) as a space."""
    return f" {token[1:]}" if token.startswith(("\u0120", "\u2581")) else token
