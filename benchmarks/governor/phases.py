"""Which traffic does each phase of the trace bring, and which requests are they exactly?

The shifting trace of `paceline.policy_simulator.traffic.traces` as real requests: eight phases that differ in
load, text and context. Requests follow from (phase, repeat) alone, so every arm is asked the same
in the same order.

Answers to renames and JSON end by themselves, greedy, at the same token in every arm. Source has no
end: it goes on for a fixed number of tokens (`ignore_eos`).
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from paceline.demo import heldout_path
from paceline.workloads import (
    Prompt,
    RequestSpec,
    SamplingSettings,
    build_specs,
    load_workload,
)

MAX_CODE_TOKENS = 256
MAX_CODE_PROMPT_TOKENS = 64
"""The last lines of the built-in ones, which have 190 tokens: on a CPU, 32 of those are seconds of
prefill at the beginning of a phase, the same in every arm, and a phase would show little else."""
MAX_LONG_ANSWER_TOKENS = 256
TOKENS_AROUND_MESSAGE = 8
"""What a chat template puts around a message: 7 with the bundled pair's."""

SMALLEST_TURN_TOKENS = 64
"""With less room than the shortest built-in question and answer need, none is tried."""

CountTokens = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class TracePhase:
    """One stretch of unchanging traffic: a closed loop."""

    name: str
    workload: str
    """Of `paceline.workloads.workloads`: predictable (renames and JSON) or code."""
    temperature: float
    concurrency: int
    is_long: bool = False
    """Whether earlier questions and answers come before the question."""


TRACE: tuple[TracePhase, ...] = (
    TracePhase("low predictable", "predictable", 0.0, 1),
    TracePhase("low hard", "code", 1.0, 1),
    TracePhase("high hard", "code", 1.0, 32),
    TracePhase("high predictable", "predictable", 0.0, 32),
    TracePhase("middle middling", "code", 0.0, 8),
    TracePhase("middle hard", "code", 1.0, 8),
    TracePhase("middle predictable long", "predictable", 0.0, 8, is_long=True),
    TracePhase("low middling", "code", 0.0, 1),
)


@dataclass(frozen=True, slots=True)
class RequestMaker:
    """Makes the requests of every phase for one served model."""

    model: str
    context_tokens: int
    """Prompt and answer of a long request, in tokens."""
    count_tokens: CountTokens

    def requests(self, number: int, phase: TracePhase, repeat: int) -> Iterator[RequestSpec]:
        """Requests without end; phase `number` of repeat `repeat` always asks the same."""
        seed = 1000 * repeat + number
        sampling = SamplingSettings(
            model=self.model,
            temperature=phase.temperature,
            top_p=None,
            max_tokens=_max_tokens(phase),
            seed=1_000_000 * seed,
            extra_body=_extra_body(phase),
        )
        prompts = load_workload(phase.workload).prompts(seed)
        if phase.is_long:
            prompts = self._long_prompts(prompts, seed)
        elif phase.workload == "code":
            prompts = [cut_to_end(p, MAX_CODE_PROMPT_TOKENS, self.count_tokens) for p in prompts]
        return build_specs(prompts, sampling)

    def _long_prompts(self, prompts: Sequence[Prompt], seed: int) -> list[Prompt]:
        """Each question after as many earlier ones, with their right answers, as there is room."""
        room, count = self.context_tokens - MAX_LONG_ANSWER_TOKENS, self.count_tokens
        answers = _right_answers()
        questions = list(prompts)
        random.Random(seed).shuffle(questions)
        return [
            make_long(question, questions[at + 1 :] + questions[:at], answers, room, count)
            for at, question in enumerate(questions)
        ]


def cut_to_end(prompt: Prompt, max_tokens: int, count_tokens: CountTokens) -> Prompt:
    """Only the last whole lines, as many as fit; the very last one stays, however long it is."""
    assert prompt.text is not None
    lines = prompt.text.splitlines(keepends=True)
    while len(lines) > 1 and count_tokens("".join(lines)) > max_tokens:
        del lines[0]
    return replace(prompt, text="".join(lines))


def make_long(
    question: Prompt,
    earlier: Sequence[Prompt],
    answers: Mapping[str, str],
    room_tokens: int,
    count_tokens: CountTokens,
) -> Prompt:
    """`question` at the end of a conversation of at most `room_tokens`; alone if nothing fits.

    Takes `earlier` questions in order and leaves out those that do not fit any more.
    """

    def tokens_of(text: str) -> int:
        return count_tokens(text) + TOKENS_AROUND_MESSAGE

    assert question.messages is not None
    left = room_tokens - tokens_of(_text_of(question)) - TOKENS_AROUND_MESSAGE
    turns: list[Mapping[str, Any]] = []
    for prompt in earlier:
        if left < SMALLEST_TURN_TOKENS:
            break
        asked = _text_of(prompt)
        needed = tokens_of(asked) + tokens_of(answers[asked])
        if needed <= left:
            left -= needed
            turns.append({"role": "user", "content": asked})
            turns.append({"role": "assistant", "content": answers[asked]})
    return Prompt(question.task, (*turns, *question.messages), None, MAX_LONG_ANSWER_TOKENS)


def _text_of(prompt: Prompt) -> str:
    assert prompt.messages is not None
    return str(prompt.messages[-1]["content"])


def _right_answers() -> dict[str, str]:
    """Question to reference answer, for all built-in questions that are chats."""
    items = json.loads(heldout_path().read_text(encoding="utf-8"))
    chats = itertools.filterfalse(lambda item: item.get("messages") is None, items)
    return {item["messages"][-1]["content"]: item["reference"] for item in chats}


def _max_tokens(phase: TracePhase) -> int | None:
    return MAX_CODE_TOKENS if phase.workload == "code" else None


def _extra_body(phase: TracePhase) -> dict[str, Any]:
    """Usage in every chunk tells how many tokens it brought: speculation brings several at once."""
    body: dict[str, Any] = {
        "stream_options": {"include_usage": True, "continuous_usage_stats": True}
    }
    if phase.workload == "code":
        body["ignore_eos"] = True
    return body
