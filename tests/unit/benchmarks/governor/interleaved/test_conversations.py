"""Questions after earlier ones, within the room for tokens."""

from __future__ import annotations

from benchmarks.governor.interleaved.conversations import make_long, reference_answers
from paceline.foundation.workloads import Prompt, load_workload


def words(text: str) -> int:
    return len(text.split())


def chat(text: str) -> Prompt:
    return Prompt("rename", ({"role": "user", "content": text},), None, 9)


def test_a_turn_that_does_not_fit_is_left_out() -> None:
    """Room 102: 8 + 2 + 8 for the question and the head of its answer leave 84. The first earlier
    turn needs 8 + 1 + 8 + 80, the second 8 + 1 + 8 + 3."""
    answers = {"big": "word " * 80, "small": "one two three"}
    long = make_long(chat("the question"), [chat("big"), chat("small")], answers, 102, words)
    assert long.messages is not None
    assert [m["content"] for m in long.messages] == ["small", "one two three", "the question"]


def test_a_conversation_of_built_in_questions_fills_its_room() -> None:
    """Room 344 in words, with 8 more for each message; a turn takes at most some 140 of them."""
    question, *earlier = load_workload("predictable").prompts(0)
    long = make_long(question, earlier, reference_answers(), 344, words)
    assert long.messages is not None
    roles = [message["role"] for message in long.messages]
    assert roles == [("user", "assistant")[i % 2] for i in range(len(roles))]
    assert roles[-1] == "user"
    assert 200 < sum(words(m["content"]) + 8 for m in long.messages) <= 344
