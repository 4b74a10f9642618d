"""Answers without text: a fault if tokens were spent on them, else nothing to judge."""

from __future__ import annotations

import json

import pytest

from paceline.operations.validate.checks.api.answers import judge_chat
from paceline.operations.validate.target.exchange import Reply
from paceline.operations.validate.tiers import tiers
from paceline.operations.validate.values import Missing, Violation


def chat(text: str | None, finish_reason: str, **more: object) -> tuple[str, Reply]:
    message = {"role": "assistant", "content": text, **more}
    document = {
        "id": "c", "object": "chat.completion", "created": 1, "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish_reason}],
        "usage": {"prompt_tokens": 4, "completion_tokens": 1, "total_tokens": 5},
    }  # fmt: skip
    return "m", Reply("POST", 200, {}, json.dumps(document).encode())


def test_an_answer_that_the_model_ends_at_once_is_not_judged() -> None:
    with pytest.raises(Missing, match="ends its answer at once"):
        judge_chat(chat("", "stop"), tiers()["local"])


def test_tokens_without_text_are_a_fault() -> None:
    with pytest.raises(Violation, match="the answer is empty"):
        judge_chat(chat("", "length"), tiers()["local"])


@pytest.mark.parametrize(
    "more", [{"reasoning": "2 + 2"}, {"reasoning_content": "2 + 2"}, {"tool_calls": [{"id": "t"}]}]
)
def test_an_answer_of_reasoning_or_tool_calls_needs_no_content(more: dict[str, object]) -> None:
    assert judge_chat(chat(None, "length", **more), tiers()["local"]).status == "PASS"


def test_an_answer_without_content_reasoning_and_tool_calls_is_a_fault() -> None:
    with pytest.raises(Violation, match="expected a string"):
        judge_chat(chat(None, "length", reasoning=None), tiers()["local"])


def test_an_answer_with_text_passes() -> None:
    assert judge_chat(chat("yes", "stop"), tiers()["local"]).status == "PASS"
