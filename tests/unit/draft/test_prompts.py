"""Prompts of a file: rendered, each once, split by their hash."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from paceline.foundation.models.models import load_tokenizer
from paceline.foundation.models.prompts import PromptSet, read_prompts
from paceline.foundation.models.values import DraftError
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


def chat(number: int, num_turns: int, system: str = "w0") -> dict[str, Any]:
    """The last request of a conversation, as a chat client sends it."""
    messages = [{"role": "system", "content": system}]
    for turn in range(num_turns):
        messages.append({"role": "user", "content": f"w{number} w{turn}"})
        messages.append({"role": "assistant", "content": f"w{turn}"})
    return {"messages": messages[:-1]}


def test_all_requests_of_a_conversation_are_on_one_side(pair: TinyPair, tmp_path: Path) -> None:
    """As a gateway captures them: every request is a line with all messages so far."""
    lines = [chat(number, turns) for turns in (1, 2, 3) for number in range(90)]
    found = read(write(tmp_path / "p.jsonl", *lines), pair)
    assert len({prompt.key for prompt in found.prompts}) == 270
    trained, held_out = found.split()
    assert not {p.conversation for p in trained} & {p.conversation for p in held_out}
    for side in (trained, held_out):
        begins = [prompt.token_ids[:4] for prompt in side]
        assert {begins.count(begin) for begin in begins} == {3}


def test_conversations_differ_by_system_message_and_first_user_message(
    pair: TinyPair, tmp_path: Path
) -> None:
    items = [
        chat(1, 1), chat(1, 3), chat(2, 1), chat(1, 1, system="w9"),
        {"messages": chat(1, 1)["messages"][1:]}, {"prompt": "w1 w0"}, {"prompt": "w1 w0 w2"},
        {"messages": [{"role": "system", "content": "w0"}]},
    ]  # fmt: skip
    found = read(write(tmp_path / "p.jsonl", *items), pair)
    first, later, *others = (prompt.conversation for prompt in found.prompts)
    assert first == later
    assert len({first, *others}) == 7


def test_many_requests_of_few_conversations_are_refused(pair: TinyPair, tmp_path: Path) -> None:
    lines = [chat(number, turns) for turns in range(1, 9) for number in range(12)]
    found = read(write(tmp_path / "p.jsonl", *lines), pair)
    with pytest.raises(DraftError, match=r"of 96 different prompts, \d conversations are held out"):
        found.split()


def test_too_few_prompts_for_a_split_are_refused(pair: TinyPair, tmp_path: Path) -> None:
    few = read(write_prompts(tmp_path / "few.jsonl", 12), pair)
    with pytest.raises(DraftError, match=r"of 12 different prompts, .* give more prompts"):
        few.split()


def test_an_empty_file_is_refused(pair: TinyPair, tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text("\n")
    with pytest.raises(DraftError, match="holds no prompt"):
        read(path, pair)


def test_a_pipe_is_refused(pair: TinyPair) -> None:
    """The provenance would have the hash of nothing, and --resume could not compare it."""
    reader, writer = os.pipe()
    os.write(writer, b'{"prompt": "a good line of text"}\n')
    os.close(writer)
    with pytest.raises(DraftError, match="is no regular file"):
        read(Path(f"/dev/fd/{reader}"), pair)
    os.close(reader)


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
    chat = {"messages": [{"role": "user", "content": "w0"}]}
    path = write(tmp_path / "p.jsonl", {"prompt": "w1"}, chat)
    with pytest.raises(DraftError, match=r"refuses .*p\.jsonl, line 2: only one system message"):
        read_prompts(path, tokenizer, default_max_tokens=5, max_positions=96, num_after_end=2)
