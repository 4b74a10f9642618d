"""Turn tokens into text incrementally, as vLLM's detokenizer does.

vLLM uses `DecodeStream` of Hugging Face's `tokenizers`: text that ends inside a character is held
back, and is lost if the answer ends there.
"""

from __future__ import annotations

from collections.abc import Sequence

from paceline.testing.mock_vllm.model.vocabulary import (
    FIRST_SPECIAL,
    TOKEN_BYTES,
    VOCABULARY_SIZE,
    bytes_of,
)

_UNKNOWN = "\ufffd"


class Detokenizer:
    """Decodes one token at a time.

    A quirk of `DecodeStream` is reproduced: if the prompt ends inside a character, which happens
    when an interrupted answer is continued from its ids, the first decoded text includes the text
    of the whole prompt.
    """

    __slots__ = ("_end", "_held")

    def __init__(self, prompt_ids: Sequence[int], *, skip_special_tokens: bool = True) -> None:
        self._end = FIRST_SPECIAL if skip_special_tokens else VOCABULARY_SIZE
        # A character has at most four bytes, and each token at least one.
        tail = bytes_of(prompt_ids[-8:], skip_special_tokens=skip_special_tokens)
        self._held = b""
        if tail.decode("utf-8", "replace").endswith(_UNKNOWN):
            self._held = bytes_of(prompt_ids, skip_special_tokens=skip_special_tokens)

    def feed(self, token: int) -> str:
        """Return the text that can be emitted after this token; empty inside a character."""
        if token >= self._end:
            return ""
        held = self._held
        data = held + TOKEN_BYTES[token] if held else TOKEN_BYTES[token]
        text = data.decode("utf-8", "replace")
        if text.endswith(_UNKNOWN):
            self._held = data
            return ""
        if held:
            self._held = b""
        return text
