"""The requests of the phases, and the workloads they come from."""

from __future__ import annotations

import itertools
import json

from benchmarks.governor.trace.phases import TRACE, RequestMaker, cut_to_end, make_long
from paceline.policy_simulator.evaluation.traces import build_trace
from paceline.policy_simulator.machines.profiles import load_profile
from paceline.workloads import Prompt, load_workload


def words(text: str) -> int:
    return len(text.split())


MAKER = RequestMaker("m", 600, words)


def test_a_phase_sends_the_same_requests_in_every_arm_and_others_in_every_repeat() -> None:
    def first_ten(repeat: int) -> list[bytes]:
        return [s.body for s in itertools.islice(MAKER.requests(2, TRACE[2], repeat), 10)]

    assert first_ten(0) == first_ten(0)
    assert first_ten(0) != first_ten(1)


def test_every_chunk_has_usage_and_only_source_ignores_the_end_token() -> None:
    for number, phase in enumerate(TRACE):
        body = json.loads(next(MAKER.requests(number, phase, 0)).body)
        assert body["stream_options"]["continuous_usage_stats"] is True
        assert body.get("ignore_eos", False) == (phase.workload != "predictable")
        assert body["temperature"] == phase.temperature


def test_a_phase_has_the_temperature_of_its_workload_and_is_named_for_its_kind_of_text() -> None:
    """The simulator's phases of the same names have a traffic class of the same kind."""
    for phase in TRACE:
        workload = load_workload(phase.workload)
        assert phase.temperature == workload.temperature
        assert workload.text_kind is not None
        assert workload.text_kind.value in phase.name.split()


def test_the_trace_has_the_phases_of_the_simulators_shifting_trace() -> None:
    simulated = build_trace("shifting", load_profile("cpu-small"))
    assert [phase.name for phase in TRACE] == [phase.name for phase in simulated]


def test_the_long_phase_fills_the_context_with_answered_questions() -> None:
    """600 tokens less 256 for the answer: 344 words at most, and most of them used."""
    number = next(i for i, phase in enumerate(TRACE) if phase.is_long)
    body = json.loads(next(MAKER.requests(number, TRACE[number], 0)).body)
    roles = [message["role"] for message in body["messages"]]
    assert roles == [("user", "assistant")[i % 2] for i in range(len(roles))]
    assert roles[-1] == "user"
    assert 200 < sum(words(m["content"]) + 8 for m in body["messages"]) <= 344


def test_a_turn_that_does_not_fit_is_left_out() -> None:
    """Room 102: 8 + 2 + 8 for the question and the head of its answer leave 84. The first earlier
    turn needs 8 + 1 + 8 + 80, the second 8 + 1 + 8 + 3."""
    question, big, small = (
        Prompt("rename", ({"role": "user", "content": text},), None, 9)
        for text in ("the question", "big", "small")
    )
    answers = {"big": "word " * 80, "small": "one two three"}
    long = make_long(question, [big, small], answers, 102, words)
    assert long.messages is not None
    assert [m["content"] for m in long.messages] == ["small", "one two three", "the question"]


def test_source_keeps_its_last_whole_lines() -> None:
    prompt = Prompt("code", None, "a b c\nd e\nf g", 9)
    assert cut_to_end(prompt, 4, words).text == "d e\nf g"
    assert cut_to_end(prompt, 1, words).text == "f g"
