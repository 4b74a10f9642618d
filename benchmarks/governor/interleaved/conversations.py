"""Chat prompts made long: a question after earlier questions with their reference answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from paceline.demo import heldout_path
from paceline.foundation.workloads import Prompt

MAX_ANSWER_TOKENS = 256
TOKENS_AROUND_MESSAGE = 8
"""Tokens that a chat template adds to a message; the bundled pair's template adds 7."""
SMALLEST_TURN_TOKENS = 64
"""Fewer tokens than the shortest built-in question and answer need together."""

CountTokens = Callable[[str], int]


def reference_answers() -> dict[str, str]:
    """Reference answers by question, for all built-in chat questions."""
    items = json.loads(heldout_path().read_text(encoding="utf-8"))
    return {
        item["messages"][-1]["content"]: item["reference"]
        for item in items
        if item.get("messages") is not None
    }


def make_long(
    question: Prompt,
    earlier: Sequence[Prompt],
    answers: Mapping[str, str],
    room_tokens: int,
    count_tokens: CountTokens,
) -> Prompt:
    """`question` at the end of a conversation of at most `room_tokens`; alone if nothing fits.

    Takes `earlier` questions in order and skips those that do not fit.
    """

    def tokens_of(text: str) -> int:
        return count_tokens(text) + TOKENS_AROUND_MESSAGE

    assert question.messages is not None
    left = room_tokens - tokens_of(_text_of(question)) - TOKENS_AROUND_MESSAGE
    turns: list[Mapping[str, Any]] = []
    for prompt in earlier:
        if left < SMALLEST_TURN_TOKENS:
            break
        text = _text_of(prompt)
        needed = tokens_of(text) + tokens_of(answers[text])
        if needed <= left:
            left -= needed
            turns.append({"role": "user", "content": text})
            turns.append({"role": "assistant", "content": answers[text]})
    return Prompt(question.task, (*turns, *question.messages), None, MAX_ANSWER_TOKENS)


def _text_of(prompt: Prompt) -> str:
    assert prompt.messages is not None
    return str(prompt.messages[-1]["content"])
