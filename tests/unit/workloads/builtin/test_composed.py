"""What is special about the workloads with long or growing prompts."""

from __future__ import annotations

from paceline.foundation.workloads import Prompt, load_workload
from paceline.foundation.workloads.builtin.rag import MAX_PASSAGE_CHARS
from paceline.foundation.workloads.builtin.sessions import MAX_THINK_S, NUM_TURNS
from paceline.foundation.workloads.builtin.shared_prompt import SYSTEM_PROMPT


def last_text(prompt: Prompt) -> str:
    assert prompt.messages is not None
    return str(prompt.messages[-1]["content"])


def test_shared_prompts_begin_alike_and_end_differently() -> None:
    prompts = load_workload("shared_prompt").prompts(seed=0)
    for prompt in prompts:
        assert prompt.messages is not None
        assert prompt.messages[0] == {"role": "system", "content": SYSTEM_PROMPT}
    # Two held-out functions occur twice.
    assert len({last_text(prompt) for prompt in prompts}) > 0.95 * len(prompts)


def test_rag_prompts_hold_passages_of_bounded_length_and_one_question() -> None:
    lengths = []
    for prompt in load_workload("rag").prompts(seed=0):
        passages, question = last_text(prompt).split("\n\nWith these in mind:\n\n")
        assert question
        lengths.append(len(passages))
    assert min(lengths) > MAX_PASSAGE_CHARS / 2
    assert max(lengths) < MAX_PASSAGE_CHARS + 200


def test_sessions_have_the_stated_turns_with_think_times() -> None:
    sessions = load_workload("sessions").prompts(seed=0)
    assert {len(session.turns) for session in sessions} == {NUM_TURNS - 1}
    think_times = [turn.think_s for session in sessions for turn in session.turns]
    assert 0 < min(think_times) < max(think_times) <= MAX_THINK_S
    firsts = [last_text(session) for session in sessions]
    laters = [turn.content for session in sessions for turn in session.turns]
    assert len(set(firsts + laters)) > 0.95 * (len(firsts) + len(laters))
