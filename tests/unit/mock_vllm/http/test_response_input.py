"""The items of a response's input become messages as in vLLM; the mock model reads their text."""

from __future__ import annotations

from typing import Any

import pytest
from coding_agents import FIRST, SECOND, THIRD, message

from paceline.testing.mock_vllm.http.response_input import chat_messages

CALL = {"type": "function_call", "name": "f", "arguments": "{}", "call_id": "c"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "1 failed"}
THOUGHT: dict[str, Any] = {"type": "reasoning", "summary": []}
USERS = ["developer", "user", "user"]


@pytest.mark.parametrize(
    ("items", "roles"),
    [
        (FIRST, USERS),
        # reasoning, text and call are one turn
        (SECOND, [*USERS, "assistant", "tool"]),
        (THIRD, [*USERS, "assistant", "tool", "assistant", "tool", "tool"]),
        ([CALL, CALL, OUTPUT], ["assistant", "tool"]),
        ([CALL, message("assistant", "a"), OUTPUT], ["assistant", "tool"]),
        ([THOUGHT, THOUGHT], ["assistant", "assistant"]),
        ([message("assistant", "a"), message("assistant", "b")], ["assistant", "assistant"]),
        ([{"role": "user", "content": "a"}, CALL], ["user", "assistant"]),
    ],
)
def test_the_items_of_one_turn_are_one_message(
    items: list[dict[str, Any]], roles: list[str]
) -> None:
    assert [one["role"] for one in chat_messages(items)] == roles


def test_the_messages_have_the_texts_of_the_items() -> None:
    *_, assistant, tool = chat_messages(SECOND)
    assert assistant["content"] == [{"type": "output_text", "text": "I look at the tests first."}]
    assert tool["content"] == "1 failed"
