"""What is kept of a request, and what a redaction hook sees and decides."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from paceline.foundation.workloads import load_prompt_file
from paceline.runtime.gateway.capture.records import (
    CapturedPrompt,
    Message,
    category_of,
    encode_line,
    read_answer,
    read_capture,
    redacted,
)
from paceline.runtime.gateway.requests.routes import CHAT, COMPLETIONS, RESPONSES, Route
from paceline.runtime.gateway.requests.validation import CheckedRequest, check_request
from unit.gateway.conftest import SETTINGS, chat
from unit.gateway.fake_engine import MODEL

AT = "2026-11-23T00:00:00+00:00"
USER = {"role": "user", "content": "hello"}


def checked(route: Route, **body: Any) -> CheckedRequest:
    granted = replace(SETTINGS, granted_fields=frozenset({"vllm_xargs"}))
    return check_request(route, json.dumps({"model": MODEL, **body}).encode(), granted)


def line(request: CheckedRequest, answer: str | None = None) -> dict[str, Any]:
    captured = read_capture(request, AT, answer)
    assert captured is not None
    read: dict[str, Any] = json.loads(msgspec.json.encode(captured))
    return read


def test_a_line_of_a_chat_has_its_messages_and_nothing_of_the_client() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    system = {"role": "system", "content": parts}
    request = checked(CHAT, messages=[system, USER], temperature=0, user="somebody")
    assert line(request, "hi") == {
        "at": AT,
        "model": MODEL,
        "category": "greedy",
        "messages": [{"role": "system", "content": "a\nb"}, USER],
        "answer": "hi",
    }


def test_a_line_of_a_completion_has_its_prompt() -> None:
    expected = {"at": AT, "model": MODEL, "category": "sampled", "prompt": "def f"}
    assert line(checked(COMPLETIONS, prompt="def f")) == expected
    assert line(checked(COMPLETIONS, prompt=["def f"])) == expected


def test_a_line_of_a_response_has_messages() -> None:
    request = checked(RESPONSES, input="hello", instructions="be brief")
    assert line(request)["messages"] == [{"role": "system", "content": "be brief"}, USER]
    items = [{"type": "message", **USER}]
    assert line(checked(RESPONSES, input=items))["messages"] == [USER]


def test_nothing_within_a_line_ends_it() -> None:
    """Some readers split at U+0085, U+2028 and U+2029, which JSON allows in a string."""
    text = "a\u0085b\u2028c\u2029d\x1ee\x0bf\x0cg\r\nh é 日本 😀"
    captured = CapturedPrompt(at=AT, model="m", category="greedy", prompt=text, answer=text)
    encoded = encode_line(captured)
    assert len(encoded.decode().splitlines()) == 1
    assert encoded.endswith(b"}\n")
    assert msgspec.json.decode(encoded, type=CapturedPrompt) == captured


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant", "tool", "function"])
def test_chats_with_known_roles_are_kept(role: str) -> None:
    message = {"role": role, "content": "hello"}
    assert line(checked(CHAT, messages=[message]))["messages"] == [message]


def test_a_file_of_lines_can_be_given_to_the_tools_that_read_prompts(tmp_path: Path) -> None:
    """`paceline draft train --prompts FILE`, for example."""
    requests = checked(CHAT, messages=[USER]), checked(COMPLETIONS, prompt="def f")
    file = tmp_path / "prompts.jsonl"
    file.write_text("".join(json.dumps(line(request, "an answer")) + "\n" for request in requests))
    chat_prompt, completion = load_prompt_file(file)
    assert (chat_prompt.messages, chat_prompt.task) == ((USER,), "sampled")
    assert completion.text == "def f"


TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("route", "body"),
    [
        (COMPLETIONS, {"prompt": [1, 2, 3]}),
        (COMPLETIONS, {"prompt": [[1, 2, 3]]}),
        (COMPLETIONS, {"prompt": ["a", "b"]}),
        (CHAT, chat(tools=[TOOL])),
        (CHAT, {"messages": [USER, {"role": "assistant", "tool_calls": [CALL]}]}),
        (CHAT, {"messages": [USER, {"role": "tool", "content": "4", "tool_call_id": "c"}]}),
        (CHAT, {"messages": [USER, {"role": "Ada Lovelace", "content": "hi"}]}),
        (RESPONSES, {"input": [{"role": "Ada Lovelace", "content": "hi"}]}),
        (RESPONSES, {"input": [{"type": "function_call_output", "call_id": "c", "output": "4"}]}),
    ],
)
def test_a_prompt_that_is_not_only_text_is_not_kept(route: Route, body: dict[str, Any]) -> None:
    """A line could not hold all of it, or a hook would not see it: a role may be any text."""
    assert read_capture(checked(route, **body), AT) is None


@pytest.mark.parametrize(
    ("fields", "category"),
    [
        ({}, "sampled"),
        ({"temperature": 0}, "greedy"),
        ({"temperature": 0.5}, "sampled"),
        ({"response_format": {"type": "json_object"}, "temperature": 0}, "structured"),
        ({"vllm_xargs": {"paceline_category": "code"}}, "code"),
        ({"vllm_xargs": {"paceline_category": "a name"}}, "other"),
        ({"vllm_xargs": {"session": "x"}}, "sampled"),
    ],
)
def test_the_category_is_that_of_recordings(fields: dict[str, Any], category: str) -> None:
    assert category_of(checked(CHAT, messages=[USER], **fields)) == category


def test_the_hook_sees_every_text_and_replaces_it() -> None:
    captured = CapturedPrompt(
        at=AT, model="m", category="greedy", answer="c",
        messages=(Message("system", "a"), Message("user", "b")),
    )  # fmt: skip
    kept = redacted(captured, str.upper)
    assert kept is not None
    assert kept.messages == (Message("system", "A"), Message("user", "B"))
    assert (kept.prompt, kept.answer, kept.at) == (None, "C", AT)
    completion = CapturedPrompt(at=AT, model="m", category="greedy", prompt="p")
    assert redacted(completion, lambda text: "") == msgspec.structs.replace(completion, prompt="")


@pytest.mark.parametrize("secret", ["a", "b", "c"])
def test_one_text_that_may_not_be_kept_drops_the_whole_line(secret: str) -> None:
    captured = CapturedPrompt(
        at=AT, model="m", category="greedy", answer="c",
        messages=(Message("system", "a"), Message("user", "b")),
    )  # fmt: skip
    assert redacted(captured, lambda text: None if text == secret else text) is None


def test_a_hook_that_returns_no_text_is_an_error() -> None:
    captured = CapturedPrompt(at=AT, model="m", category="greedy", prompt="p")
    with pytest.raises(TypeError, match="returned int"):
        redacted(captured, len)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"choices": [{"text": "a"}]}, "a"),
        ({"choices": [{"message": {"role": "assistant", "content": "a"}}]}, "a"),
        ({"choices": [{"message": {"content": None}}]}, None),
        ({"choices": [{"text": "a"}, {"text": "b"}]}, None),
        ({"choices": []}, None),
        ({"output": []}, None),
        ([], None),
        (None, None),
    ],
)
def test_the_answer_is_read_where_there_is_one_text(body: object, text: str | None) -> None:
    assert read_answer(json.dumps(body).encode()) == text
    assert read_answer(b"{") is None
