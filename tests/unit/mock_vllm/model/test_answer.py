"""Answers: their text, their end and their stop conditions."""

from __future__ import annotations

import pytest

from paceline.testing.mock_vllm import decode, encode_chat, expected_answer
from paceline.testing.mock_vllm.model.answer import AnswerGenerator
from paceline.testing.mock_vllm.model.detokenizer import Detokenizer
from paceline.testing.mock_vllm.model.sampling import SamplingParams
from paceline.testing.mock_vllm.model.vocabulary import END

PROMPT = encode_chat([("user", "hé?")], add_generation_prompt=True)


def test_texts_are_valid_utf8_with_characters_of_two_to_four_tokens() -> None:
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


def test_ignore_eos_continues_past_the_end_token_and_min_tokens_delays_it() -> None:
    ended = expected_answer(PROMPT, 3000, eos_every_tokens=64)
    assert (ended.finish_reason, ended.stop_reason, ended.ids[-1]) == ("stop", None, END)
    num = len(ended.ids)
    continued = expected_answer(PROMPT, num + 9, eos_every_tokens=64, ignore_eos=True)
    assert continued.ids[:num] == ended.ids
    assert (len(continued.ids), continued.finish_reason) == (num + 9, "length")
    later = expected_answer(PROMPT, 3000, eos_every_tokens=64, min_tokens=num)
    assert later.ids[: num - 1] == ended.ids[:-1]
    assert len(later.ids) > num
    assert END not in later.ids[:num]


def test_a_stop_token_is_the_stop_reason_and_adds_no_text() -> None:
    whole = expected_answer([65], 30, eos_every_tokens=0)
    stop_token = whole.ids[20]
    index = whole.ids.index(stop_token)
    cut = expected_answer([65], 30, stop_token_ids=[stop_token], eos_every_tokens=0)
    assert cut.ids == whole.ids[: index + 1]
    assert (cut.finish_reason, cut.stop_reason) == ("stop", stop_token)
    assert cut.text == decode(whole.ids[:index])


def test_a_stop_string_cuts_the_text_and_keeps_the_tokens_that_complete_it() -> None:
    whole = expected_answer([65], 40, eos_every_tokens=0)
    stop = whole.text[30:35]
    begin = whole.text.index(stop)
    cut = expected_answer([65], 40, stop=[stop], eos_every_tokens=0)
    assert (cut.text, cut.stop_reason) == (whole.text[:begin], stop)
    kept = expected_answer([65], 40, stop=[stop], include_stop_str_in_output=True)
    assert kept.text == whole.text[: begin + 5]
    assert cut.ids == kept.ids == whole.ids[: len(cut.ids)]
    assert len(decode(whole.ids[: len(cut.ids) - 1])) < begin + 5 <= len(decode(cut.ids))


@pytest.mark.parametrize("pattern", [[1], [2], [1, 3, 2], [7]])
def test_the_answer_does_not_depend_on_the_number_of_tokens_per_chunk(pattern: list[int]) -> None:
    whole = expected_answer([65], 60, stop=["\u2028\u2028no", " how"], eos_every_tokens=0)
    sampling = SamplingParams(60, stop=("\u2028\u2028no", " how"))
    generator = AnswerGenerator([65], sampling, eos_every_tokens=0)
    ids: list[int] = []
    text, steps = "", 0
    while not generator.is_finished:
        delta = generator.advance(pattern[steps % len(pattern)])
        steps += 1
        ids += delta.ids
        text += delta.text
        decoded = decode(ids)
        assert (
            delta.finish_reason or len(decoded) - len(text) >= len("\u2028\u2028no") - 1 or not text
        )
    assert (tuple(ids), text) == (whole.ids, whole.text)
