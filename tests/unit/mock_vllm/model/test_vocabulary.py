"""The vocabulary: the chat template and the fragments of characters."""

from __future__ import annotations

from paceline.testing.mock_vllm import decode, encode_chat
from paceline.testing.mock_vllm.model.vocabulary import CONTINUATIONS, FIRST_SPECIAL, TOKEN_BYTES

PROMPT = encode_chat([("user", "hé?")], add_generation_prompt=True)


def test_a_chat_is_encoded_with_the_documented_template() -> None:
    named = [TOKEN_BYTES[token].decode() for token in PROMPT if token >= FIRST_SPECIAL]
    assert named == ["<|user|>", "<|end|>", "<|assistant|>"]
    assert decode(PROMPT) == "hé?"
    assert decode(PROMPT, skip_special_tokens=False) == "<|user|>hé?<|end|><|assistant|>"


def test_every_unfinished_character_can_be_completed() -> None:
    for start, tokens in CONTINUATIONS.items():
        for token in tokens:
            joined = start + TOKEN_BYTES[token]
            try:
                joined.decode()
            except UnicodeDecodeError:
                assert joined in CONTINUATIONS
