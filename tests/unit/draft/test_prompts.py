"""Prompts of a file: rendered, each once, split by their hash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paceline.draft.models import load_tokenizer
from paceline.draft.prompts import PromptSet, read_prompts
from paceline.draft.values import DraftError
from unit.draft.conftest import TinyPair
from unit.draft.tiny_models import write_prompts


def read(path: Path, pair: TinyPair, **options: Any) -> PromptSet:
    defaults = {"default_max_tokens": 5, "max_positions": 96, "num_after_end": 2}
    return read_prompts(path, load_tokenizer(pair.target), **{**defaults, **options})


def write(path: Path, *items: object) -> Path:
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    return path


def test_messages_go_through_the_chat_template_and_texts_do_not(
    pair: TinyPair, tmp_path: Path
) -> None:
    """Tokens 2 and 3 are <user> and <model>; the words w0 and w1 are 4 and 5."""
    path = write(
        tmp_path / "p.jsonl",
        {"messages": [{"role": "user", "content": "w0 w1"}], "max_tokens": 7},
        {"prompt": "w0 w1"},
    )
    chat, text = read(path, pair).prompts
    assert (chat.token_ids, chat.max_tokens) == ((2, 4, 5, 3), 7)
    assert (text.token_ids, text.max_tokens) == ((4, 5), 5)


def test_a_repeated_prompt_counts_once_in_its_first_place(pair: TinyPair, tmp_path: Path) -> None:
    path = write(
        tmp_path / "p.jsonl",
        {"prompt": "w0"}, {"prompt": "w1"}, {"prompt": "w0", "max_tokens": 9}, {"prompt": "w2"},
    )  # fmt: skip
    found = read(path, pair, limit=2)
    assert [prompt.token_ids for prompt in found.prompts] == [(4,), (5,)]
    assert found.num_repeated == 1


def test_prompts_that_do_not_fit_are_left_out(pair: TinyPair, tmp_path: Path) -> None:
    """Two words, five tokens of answer and two after its end are nine positions."""
    path = write(tmp_path / "p.jsonl", {"prompt": "w0 w1"}, {"prompt": "w0 w1 w2"})
    found = read(path, pair, max_positions=9)
    assert (len(found.prompts), found.num_too_long) == (1, 1)
    with pytest.raises(DraftError, match="none of the 2 prompts"):
        read(path, pair, max_positions=8)


def test_added_prompts_move_no_other_to_the_other_side(pair: TinyPair, tmp_path: Path) -> None:
    few = read(write_prompts(tmp_path / "few.jsonl", 60), pair).split()
    more = read(write_prompts(tmp_path / "more.jsonl", 90), pair).split()
    for before, after in zip(few, more, strict=True):
        assert {prompt.key for prompt in before} < {prompt.key for prompt in after}
    trained, held_out = few
    assert not {prompt.key for prompt in trained} & {prompt.key for prompt in held_out}


def test_too_few_prompts_for_a_split_are_refused(pair: TinyPair, tmp_path: Path) -> None:
    few = read(write_prompts(tmp_path / "few.jsonl", 12), pair)
    with pytest.raises(DraftError, match=r"of 12 different prompts, .* give more prompts"):
        few.split()


def test_an_empty_file_is_refused(pair: TinyPair, tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text("\n")
    with pytest.raises(DraftError, match="holds no prompt"):
        read(path, pair)


def test_a_prompt_without_tokens_is_refused(pair: TinyPair, tmp_path: Path) -> None:
    with pytest.raises(DraftError, match="a prompt without tokens"):
        read(write(tmp_path / "p.jsonl", {"prompt": ""}), pair)


def test_messages_need_a_chat_template(pair: TinyPair, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(pair.target)
    tokenizer.chat_template = None
    path = write(tmp_path / "p.jsonl", {"messages": [{"role": "user", "content": "w0"}]})
    with pytest.raises(DraftError, match="no chat template; add"):
        read_prompts(path, tokenizer, default_max_tokens=5, max_positions=96, num_after_end=2)


def test_a_template_that_refuses_a_prompt_is_named(pair: TinyPair, tmp_path: Path) -> None:
    tokenizer = load_tokenizer(pair.target)
    tokenizer.chat_template = "{{ raise_exception('only one system message') }}"
    path = write(tmp_path / "p.jsonl", {"messages": [{"role": "user", "content": "w0"}]})
    with pytest.raises(DraftError, match="only one system message"):
        read_prompts(path, tokenizer, default_max_tokens=5, max_positions=96, num_after_end=2)
