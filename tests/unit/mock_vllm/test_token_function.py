"""The tokens: the same function for everyone, and the text that vLLM would make of them."""

from __future__ import annotations

import random

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models

from paceline.mock_vllm import decode, encode_chat, encode_text, expected_answer
from paceline.mock_vllm.model.answer import SamplingParams, Writing
from paceline.mock_vllm.model.detokenizer import Detokenizer
from paceline.mock_vllm.model.token_function import TokenSource
from paceline.mock_vllm.model.vocabulary import (
    CONTINUATIONS,
    END,
    FIRST_PIECE,
    FIRST_SPECIAL,
    TOKEN_BYTES,
    VOCABULARY_SIZE,
)

PROMPT = encode_chat([("user", "hé?")], add_generation_prompt=True)


def test_the_template_is_the_documented_one() -> None:
    named = [TOKEN_BYTES[token].decode() for token in PROMPT if token >= FIRST_SPECIAL]
    assert named == ["<|user|>", "<|end|>", "<|assistant|>"]
    assert decode(PROMPT) == "hé?"
    assert decode(PROMPT, skip_special_tokens=False) == "<|user|>hé?<|end|><|assistant|>"


def test_some_tokens_are_known_by_heart() -> None:
    """Whoever changes the function breaks every recorded ledger: it may not happen unnoticed."""
    assert expected_answer(encode_text("abc"), 8).ids == (264, 296, 289, 260, 240, 347, 181, 291)
    assert expected_answer(encode_text("abc"), 4, seed=7).ids == (332, 230, 380, 273)


@pytest.mark.parametrize("seed", [None, 3])
def test_a_continuation_from_any_place_is_the_rest_of_the_answer(seed: int | None) -> None:
    """Also from inside a character of several tokens."""
    whole = expected_answer(PROMPT, 400, seed=seed, eos_every_tokens=0)
    for place in range(1, 400):
        context = [*PROMPT, *whole.ids[:place]]
        rest = expected_answer(context, 400 - place, seed=seed, eos_every_tokens=0)
        assert rest.ids == whole.ids[place:]


def test_answers_differ_by_prompt_and_by_seed_only_when_sampling() -> None:
    base = expected_answer([1, 2, 3], 20)
    assert expected_answer([1, 2, 4], 20).ids != base.ids
    assert expected_answer([2, 1, 3], 20).ids != base.ids
    assert expected_answer([1, 2, 3], 20, seed=0).ids != base.ids
    assert expected_answer([1, 2, 3], 20, seed=0).ids != expected_answer([1, 2, 3], 20, seed=1).ids


def test_texts_are_whole_and_have_characters_of_two_to_four_tokens() -> None:
    answer = expected_answer(PROMPT, 5000, eos_every_tokens=0)
    text = decode(answer.ids[:-4])
    assert answer.text.startswith(text.rstrip("\ufffd"))
    assert "\ufffd" not in answer.text
    lengths, begun = set(), 0
    detokenizer = Detokenizer(PROMPT)
    for token in answer.ids:
        begun += 1
        out = detokenizer.feed(token)
        if out:
            if len(out.encode()) > 1 and ord(out[0]) > 0x1F000:
                lengths.add(begun)
            begun = 0
    assert lengths == {2, 3, 4}


def test_every_start_of_a_character_can_be_finished() -> None:
    for start, tokens in CONTINUATIONS.items():
        for token in tokens:
            joined = start + TOKEN_BYTES[token]
            try:
                joined.decode()
            except UnicodeDecodeError:
                assert joined in CONTINUATIONS


def test_the_end_comes_at_a_place_that_ignore_eos_passes_and_min_tokens_puts_off() -> None:
    ended = expected_answer(PROMPT, 3000, eos_every_tokens=64)
    assert (ended.finish_reason, ended.stop_reason, ended.ids[-1]) == ("stop", None, END)
    num = len(ended.ids)
    passed = expected_answer(PROMPT, num + 9, eos_every_tokens=64, ignore_eos=True)
    assert passed.ids[:num] == ended.ids
    assert (len(passed.ids), passed.finish_reason) == (num + 9, "length")
    later = expected_answer(PROMPT, 3000, eos_every_tokens=64, min_tokens=num)
    assert later.ids[: num - 1] == ended.ids[:-1]
    assert len(later.ids) > num
    assert END not in later.ids[:num]


def test_a_stop_token_ends_with_its_id_as_reason_and_without_its_text() -> None:
    whole = expected_answer([65], 30, eos_every_tokens=0)
    wanted = whole.ids[20]
    place = whole.ids.index(wanted)
    cut = expected_answer([65], 30, stop_token_ids=[wanted], eos_every_tokens=0)
    assert cut.ids == whole.ids[: place + 1]
    assert (cut.finish_reason, cut.stop_reason) == ("stop", wanted)
    assert cut.text == decode(whole.ids[:place])


def test_a_stop_string_cuts_the_text_and_keeps_the_tokens_that_completed_it() -> None:
    whole = expected_answer([65], 40, eos_every_tokens=0)
    at = 30
    stop = whole.text[at : at + 5]
    begin = whole.text.index(stop)
    cut = expected_answer([65], 40, stop=[stop], eos_every_tokens=0)
    assert (cut.text, cut.stop_reason) == (whole.text[:begin], stop)
    kept = expected_answer([65], 40, stop=[stop], include_stop_str_in_output=True)
    assert kept.text == whole.text[: begin + 5]
    assert cut.ids == kept.ids == whole.ids[: len(cut.ids)]
    assert len(decode(whole.ids[: len(cut.ids) - 1])) < begin + 5 <= len(decode(cut.ids))


@pytest.mark.parametrize("pattern", [[1], [2], [1, 3, 2], [7]])
def test_the_answer_does_not_depend_on_how_many_tokens_a_chunk_has(pattern: list[int]) -> None:
    whole = expected_answer([65], 60, stop=["\u2028\u2028no", " how"], eos_every_tokens=0)
    sampling = SamplingParams(60, stop=("\u2028\u2028no", " how"))
    writing = Writing([65], sampling, eos_every_tokens=0)
    ids: list[int] = []
    text, steps = "", 0
    while not writing.is_finished:
        piece = writing.advance(pattern[steps % len(pattern)])
        steps += 1
        ids += piece.ids
        text += piece.text
        held = decode(ids)
        assert piece.finish_reason or len(held) - len(text) >= len("\u2028\u2028no") - 1 or not text
    assert (tuple(ids), text) == (whole.ids, whole.text)


def _as_hugging_face() -> Tokenizer:
    """The vocabulary as a byte-level tokenizer of Hugging Face's library, which vLLM uses."""
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


SPECIAL = range(FIRST_SPECIAL, VOCABULARY_SIZE)


def _byte_alphabet() -> list[str]:
    """GPT-2's letters for the 256 bytes."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, num_other = {}, 0
    for byte in range(256):
        if byte in shown:
            letters[byte] = chr(byte)
        else:
            letters[byte] = chr(256 + num_other)
            num_other += 1
    return [letters[byte] for byte in range(256)]


def test_text_is_held_back_as_vllms_detokenizer_does() -> None:
    """The oracle is `DecodeStream`, primed with the prompt's ids as vLLM primes it; the tokens are
    random, so that most of them are no UTF-8, and the model's own."""
    tokenizer = _as_hugging_face()
    drawn = random.Random(1)
    bytes_and_pieces = [*range(0x80, 0x100), *range(FIRST_PIECE, FIRST_SPECIAL), 65, 66, *SPECIAL]
    for case in range(600):
        prompt = [drawn.choice(bytes_and_pieces) for _ in range(drawn.randrange(6))] or [65]
        if case % 2:
            source = TokenSource(prompt, seed=case, eos_every_tokens=0)
            tokens = [source.next_token() for _ in range(40)]
        else:
            tokens = [drawn.choice(bytes_and_pieces) for _ in range(12)]
        stream = decoders.DecodeStream(ids=prompt, skip_special_tokens=True)
        ours = Detokenizer(prompt)
        for token in tokens:
            assert ours.feed(token) == (stream.step(tokenizer, token) or "")
