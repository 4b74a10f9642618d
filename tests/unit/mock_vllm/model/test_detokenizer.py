"""The detokenizer compared with the one that vLLM uses."""

from __future__ import annotations

import random

from tokenizers import AddedToken, Tokenizer, decoders, models

from paceline.testing.mock_vllm.model.detokenizer import Detokenizer
from paceline.testing.mock_vllm.model.sampling import Sampler, SamplingParams
from paceline.testing.mock_vllm.model.vocabulary import (
    FIRST_FRAGMENT,
    FIRST_SPECIAL,
    TOKEN_BYTES,
    VOCABULARY_SIZE,
)

SPECIAL = range(FIRST_SPECIAL, VOCABULARY_SIZE)


def test_the_detokenizer_emits_the_same_text_as_hugging_faces_decode_stream() -> None:
    """The oracle is `DecodeStream`, given the prompt's ids as in vLLM.

    Half of the cases decode random tokens, most of which are not valid UTF-8; the other half decode
    the model's own tokens.
    """
    tokenizer = _as_hugging_face()
    rng = random.Random(1)
    non_text = [
        *range(0x80, 0x100),
        *range(FIRST_FRAGMENT, FIRST_SPECIAL),
        65,
        66,
        *SPECIAL,
    ]
    for case in range(600):
        prompt = [rng.choice(non_text) for _ in range(rng.randrange(6))] or [65]
        if case % 2:
            sampler = Sampler(prompt, SamplingParams(40, seed=case), eos_every_tokens=0)
            tokens = [sampler.next_token() for _ in range(40)]
        else:
            tokens = [rng.choice(non_text) for _ in range(12)]
        stream = decoders.DecodeStream(ids=prompt, skip_special_tokens=True)
        ours = Detokenizer(prompt)
        for token in tokens:
            assert ours.feed(token) == (stream.step(tokenizer, token) or "")


def _as_hugging_face() -> Tokenizer:
    """Return the vocabulary as a byte-level tokenizer of Hugging Face's library, as vLLM uses."""
    alphabet = _byte_alphabet()
    vocabulary = {
        "".join(alphabet[byte] for byte in TOKEN_BYTES[token]): token
        for token in range(FIRST_SPECIAL)
    }
    assert len(vocabulary) == FIRST_SPECIAL
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=alphabet[0]))
    tokenizer.decoder = decoders.ByteLevel()
    special = [AddedToken(TOKEN_BYTES[token].decode(), special=True) for token in SPECIAL]
    tokenizer.add_special_tokens(special)
    return tokenizer


def _byte_alphabet() -> list[str]:
    """Return GPT-2's characters for the 256 bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, num_other = {}, 0
    for byte in range(256):
        if byte in printable:
            letters[byte] = chr(byte)
        else:
            letters[byte] = chr(256 + num_other)
            num_other += 1
    return [letters[byte] for byte in range(256)]
