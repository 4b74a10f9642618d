"""Strings in a list of content reach the engine as parts of type text, whatever the role."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from paceline.runtime.gateway.requests.routes import CHAT
from unit.gateway.conftest import Serve, chat

TOOL_CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    ("messages", "sent"),
    [
        (
            [{"role": "system", "content": ["a"]}, {"role": "user", "content": "b"}],
            [{"role": "system", "content": [part("a")]}, {"role": "user", "content": "b"}],
        ),
        (
            [{"role": "developer", "content": ["a", ""]}, {"role": "user", "content": ["b"]}],
            [
                {"role": "developer", "content": [part("a"), part("")]},
                {"role": "user", "content": [part("b")]},
            ],
        ),
        (
            [{"role": "user", "content": [part("a"), "b"], "name": "n"}],
            [{"role": "user", "content": [part("a"), part("b")], "name": "n"}],
        ),
        (
            [
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": ["b"], "tool_calls": [TOOL_CALL]},
                {"role": "tool", "tool_call_id": "c", "content": ["1", "2"]},
            ],
            [
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": [part("b")], "tool_calls": [TOOL_CALL]},
                {"role": "tool", "tool_call_id": "c", "content": [part("1"), part("2")]},
            ],
        ),
    ],
)
@pytest.mark.parametrize("dialect", ["vllm", "llama.cpp"])
async def test_a_string_among_content_is_sent_as_a_text_part(
    serve: Serve, dialect: str, messages: list[dict[str, Any]], sent: list[dict[str, Any]]
) -> None:
    """vLLM 0.32 answers 400 to a list of strings alone."""
    async with serve() as served:
        served.source.current = [replace(served.replicas[0], dialect=dialect)]
        answer = await served.http.post(CHAT.path, json=chat(messages=messages))
        assert answer.status_code == 200, answer.text
        (body,) = served.engine.bodies
    assert json.loads(body) == chat(messages=sent)


async def test_content_without_strings_in_lists_is_sent_byte_by_byte(serve: Serve) -> None:
    body = json.dumps(chat(messages=[{"role": "user", "content": [part("a")]}]), indent=1).encode()
    async with serve() as served:
        answer = await served.http.post(
            CHAT.path, content=body, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 200, answer.text
        assert served.engine.bodies == [body]
