"""Prompts in the forms of public data sets, with small samples of our own making."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paceline.foundation.workloads import (
    Prompt,
    Turn,
    WorkloadError,
    load_prompt_file,
    load_prompt_records,
)


def write(tmp_path: Path, *items: object) -> Path:
    path = tmp_path / "prompts.json"
    path.write_text(json.dumps(items))
    return path


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def said(*messages: tuple[str, str]) -> dict[str, Any]:
    return {"id": "c", "conversations": [{"from": who, "value": text} for who, text in messages]}


def test_sharegpt_conversations_are_sessions_with_limits_from_the_answers(tmp_path: Path) -> None:
    """40 bytes of an answer are 10 tokens, 41 are 11."""
    path = write(
        tmp_path,
        said(("human", "a"), ("gpt", "x" * 40), ("human", "b"), ("gpt", "x" * 41), ("human", "c")),
    )
    (session,) = load_prompt_file(path)
    assert session == Prompt(
        "prompts", (user("a"),), None, 10, turns=(Turn("b", 0.0, 11), Turn("c", 0.0, None))
    )


@pytest.mark.parametrize(
    ("conversation", "messages"),
    [
        (said(("gpt", "hello"), ("human", "a"), ("gpt", "b")), (user("a"),)),
        (said(("human", ""), ("gpt", "?"), ("human", "a")), (user("a"),)),
        (said(("human", "a"), ("human", "b"), ("gpt", "c")), (user("a\n\nb"),)),
        (
            said(("system", "Be brief."), ("user", "a"), ("chatgpt", "b")),
            ({"role": "system", "content": "Be brief."}, user("a")),
        ),
        (
            {"conversations": [{"role": "user", "content": "a"}, {"role": "bing", "content": "b"}]},
            (user("a"),),
        ),
        ({"conversation": [{"role": "USER", "content": "a"}], "model": "m"}, (user("a"),)),
        (said(("function_call", "x"), ("observation", "a"), ("gpt", "b")), (user("a"),)),
    ],
)
def test_what_real_files_of_sharegpt_hold_is_read(
    tmp_path: Path, conversation: dict[str, Any], messages: tuple[dict[str, str], ...]
) -> None:
    (session,) = load_prompt_file(write(tmp_path, conversation))
    assert session.messages == messages
    assert session.turns == ()


def test_conversations_without_a_user_are_left_out_and_counted(tmp_path: Path) -> None:
    path = write(tmp_path, said(), said(("gpt", "hello")), said(("human", "a")))
    found = load_prompt_records(path)
    assert [record.prompt.messages for record in found.records] == [(user("a"),)]
    assert found.num_left_out == 2
    with pytest.raises(WorkloadError, match=r"holds no prompt.*; 1 conversations have no message"):
        load_prompt_file(write(tmp_path, said()))


@pytest.mark.parametrize(
    ("item", "prompt"),
    [
        (
            {"question_id": 81, "category": "writing", "turns": ["a", "b"], "reference": ["x"]},
            Prompt("writing", (user("a"),), None, None, turns=(Turn("b"),)),
        ),
        ({"text": "a", "output_length": 7}, Prompt("prompts", (user("a"),), None, 7)),
        (
            {
                "session_id": "s",
                "turns": [
                    {"role": "system", "text": "x"},
                    {"text": "a"},
                    {"text": "b", "delay": 1500, "output_length": 3},
                ],
            },
            Prompt(
                "prompts",
                ({"role": "system", "content": "x"}, user("a")),
                None,
                None,
                turns=(Turn("b", 1.5, 3),),
            ),
        ),
        (
            {
                "custom_id": "1",
                "method": "POST",
                "url": "/v1/chat/completions",
                "body": {"model": "m", "messages": [user("a")], "max_completion_tokens": 5},
            },
            Prompt("prompts", (user("a"),), None, 5),
        ),
        (
            {"instruction": "Shorten.", "input": "A text.", "output": "T."},
            Prompt("prompts", (user("Shorten.\n\nA text."),), None, None),
        ),
        (
            {"instruction": "Why?", "context": "", "response": "So.", "category": "qa"},
            Prompt("qa", (user("Why?"),), None, None),
        ),
        ({"prompt": "a", "output_tokens": 10}, Prompt("prompts", None, "a", 10)),
    ],
)
def test_other_public_forms_are_read(tmp_path: Path, item: dict[str, Any], prompt: Prompt) -> None:
    assert load_prompt_file(write(tmp_path, item)) == [prompt]


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (
            {"question": "a", "answer": "b"},
            "it has question, answer; give messages or prompt, or the fields of a public form",
        ),
        ({"conversations": "a"}, "item 1: conversations is str; it must be a list of messages"),
        (said(("human", "a"), ("robot", "b")), "message 2: it is from 'robot'; it must be from"),
        ({"conversations": [{"from": "human", "value": 3}]}, "message 1: value is int"),
        ({"turns": [{"delay": 3}]}, "turn 1: text is missing"),
        ({"body": {"input": "a"}}, "item 1, body: a prompt needs either messages or a prompt"),
        ({"prompt": "a", "output_tokens": 0}, "output_tokens is 0; it must be at least 1"),
    ],
)
def test_a_bad_record_of_a_public_form_is_refused(
    tmp_path: Path, item: dict[str, Any], message: str
) -> None:
    with pytest.raises(WorkloadError, match=message):
        load_prompt_file(write(tmp_path, item))


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (
            {"prompt": "a", "output_tokens": 3, "ignore_eo": True},
            "item 1: ignore_eo is unknown and resembles ignore_eos; the fields that are read are "
            "messages, prompt, task",
        ),
        ({"text": "a", "outputlength": 3}, "outputlength is unknown and resembles output_length"),
        ({"turns": [{"text": "a"}, {"text": "b", "delays": 3}]}, "turn 2: delays .* delay"),
        ({"turns": ["a"], "Category": "x"}, "Category is unknown and resembles category"),
        ({"instruction": "a", "contexts": "b"}, "contexts is unknown and resembles context"),
        (said(("human", "a")) | {"conversations": [{"from": "human", "values": "a"}]},
         "message 1: values is unknown and resembles value"),
        ({"body": {"prompt": "a", "max_completion_token": 3}},
         "item 1, body: max_completion_token is unknown and resembles max_completion_tokens"),
        ({"body": {"prompt": "a", "Response_Format": {}}}, "Response_Format .* response_format"),
        ({"prompt": "a", "output_tokens": 3, "max_tokens": 4}, "exclude each other"),
    ],
)  # fmt: skip
def test_a_misspelt_field_of_a_public_form_is_refused(
    tmp_path: Path, item: dict[str, Any], message: str
) -> None:
    with pytest.raises(WorkloadError, match=message):
        load_prompt_file(write(tmp_path, item))


@pytest.mark.parametrize(
    "item",
    [
        # LMSYS-Chat-1M, Alpaca with its source, HumanEval as vLLM's custom, a batch for llama.cpp
        {"conversation_id": "c", "model": "m", "turn": 1, "language": "English", "redacted": False}
        | {"conversation": [{"role": "user", "content": "a"}]},
        {"instruction": "a", "input": "", "output": "b", "source": "s", "system": ""},
        {"prompt": "a", "output_tokens": 3, "prompt_id": "p", "task_id": "t", "entry_point": "f"},
        {"body": {"model": "m", "prompt": "a", "min_tokens": 1, "reasoning_format": "none",
                  "temperature": 1, "stream": True}},
        {"question_id": 81, "category": "qa", "turns": ["a"], "reference": []},
        {"text": "a", "image": "x.png", "input_length": 4},
    ],
)  # fmt: skip
def test_further_columns_of_public_data_are_passed_over(
    tmp_path: Path, item: dict[str, Any]
) -> None:
    [prompt] = load_prompt_file(write(tmp_path, item))
    assert prompt.text == "a" or prompt.messages == (user("a"),)


def test_fields_of_a_request_count_in_the_custom_form(tmp_path: Path) -> None:
    item = {"prompt": "a", "output_tokens": 3, "category": "qa", "ignore_eos": True}
    assert load_prompt_file(write(tmp_path, item)) == [Prompt("qa", None, "a", 3, ignore_eos=True)]


@pytest.mark.parametrize("own", [{"messages": [user("real")]}, {"prompt": "real"}])
@pytest.mark.parametrize(
    ("other", "unknown"),
    [
        ({"text": "x"}, "text"),
        ({"instruction": "sys", "max_tokens": 5}, "instruction"),
        (said(("human", "x")), "conversations"),
        ({"body": {"prompt": "x"}}, "body"),
    ],
)
def test_no_other_text_is_sent_in_place_of_messages_or_prompt(
    tmp_path: Path, own: dict[str, Any], other: dict[str, Any], unknown: str
) -> None:
    with pytest.raises(WorkloadError, match=f"{unknown} is unknown; allowed fields are messages"):
        load_prompt_file(write(tmp_path, {**own, **other}))


@pytest.mark.parametrize("answer", ["", "\n"])
def test_an_empty_recorded_answer_is_no_limit(tmp_path: Path, answer: str) -> None:
    (session,) = load_prompt_file(write(tmp_path, said(("human", "a"), ("gpt", answer))))
    assert session.max_tokens is None
