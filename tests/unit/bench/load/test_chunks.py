"""Chunks as servers send them: what may be absent, null or of another type, and what may not."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from paceline.foundation.load.chunks import read_chunk
from paceline.foundation.load.records import DraftCounts

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


VLLM = {
    "mean_acceptance_length": 1.25,
    "draft_acceptance_rate": 0.125,
    "acceptance_histogram": [3, 1, 0],
    "num_spec_steps": 4,
    "num_accepted_draft_tokens": 1,
    "num_draft_tokens": 8,
    "num_spec_tokens": 2,
}


@pytest.mark.parametrize(
    ("chunk", "drafts"),
    [
        ({"metrics": {"speculative_decoding": VLLM}}, DraftCounts(8, 1, 4)),
        ({"metrics": {"speculative_decoding": None, "queue_time_ms": 3}}, None),
        ({"metrics": None}, None),
        ({"metrics": "a text"}, None),
        ({"metrics": {"speculative_decoding": {**VLLM, "num_draft_tokens": "8"}}}, None),
        ({"timings": {"predicted_n": 9, "draft_n": 12, "draft_n_accepted": 7}}, DraftCounts(12, 7)),
        ({"timings": {"predicted_n": 9}}, None),
        ({}, None),
    ],
)
def test_drafts_of_an_answer_are_read_where_the_server_shows_them(
    chunk: dict[str, Any], drafts: DraftCounts | None
) -> None:
    assert read_chunk(json.dumps({"choices": [], **chunk}).encode()).drafts == drafts
