"""Chunks as servers send them: what may be absent, null or of another type, and what may not."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from paceline.bench.load.chunks import read_chunk

USAGE = {"prompt_tokens": 5, "completion_tokens": 2}


@pytest.mark.parametrize(
    "chunk",
    [
        {"choices": None, "usage": USAGE},
        {"usage": USAGE},
        {"choices": [], "usage": USAGE},
        {"choices": [None], "usage": USAGE},
        {"choices": [{"index": 0, "delta": None, "finish_reason": None}], "usage": USAGE},
        {"choices": [], "usage": {"prompt_tokens": 5.0, "completion_tokens": 2.0}},
        {"choices": [], "usage": {**USAGE, "cost": "0.01", "completion_tokens_details": None}},
    ],
)
def test_usage_is_read_whatever_stands_beside_it(chunk: dict[str, Any]) -> None:
    found = read_chunk(json.dumps(chunk).encode())
    assert (found.prompt_tokens, found.output_tokens) == (5, 2)
    assert (found.has_content, found.text, found.is_last) == (False, "", False)


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        ({"delta": {"content": "a"}}, "a"),
        (
            {"delta": {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}},
            "ab",
        ),
        ({"delta": {"content": None, "reasoning_content": "so"}}, ""),
        ({"delta": {"content": "", "tool_calls": [{"index": 0}]}}, ""),
        ({"text": "a", "logprobs": None}, ""),
    ],
)
def test_content_of_every_kind_counts_as_content(choice: dict[str, Any], text: str) -> None:
    found = read_chunk(json.dumps({"choices": [choice]}).encode())
    assert found.has_content
    assert found.text == text


@pytest.mark.parametrize(
    "delta", [{"content": ""}, {"content": []}, {"role": "assistant"}, {"tool_calls": None}, {}]
)
def test_a_delta_without_anything_is_no_content(delta: dict[str, Any]) -> None:
    assert not read_chunk(json.dumps({"choices": [{"delta": delta}]}).encode()).has_content


def test_a_finish_reason_without_a_delta_ends_the_answer() -> None:
    assert read_chunk(b'{"choices": [{"index": 0, "finish_reason": "stop"}]}').is_last
    assert not read_chunk(b'{"choices": null}').is_last


def test_counts_that_are_not_whole_are_unknown() -> None:
    assert read_chunk(b'{"usage": {"completion_tokens": 2.5}}').output_tokens is None


@pytest.mark.parametrize(
    "event", [b"{nonsense", b"[]", b"3", b'{"choices": 3}', b'{"choices": [3]}']
)
def test_what_is_no_chunk_is_refused(event: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        read_chunk(event)
