"""The phases of the shifting trace, and the requests of each phase.

The trace is that of `paceline.policy_simulator.evaluation.traces` with real requests: eight phases
that differ in load, text and context. The requests depend on the phase and the repeat alone, so
every arm gets the same requests in the same order.

Greedy answers to renames and JSON end by themselves, at the same token in every arm. Source code
has no natural end, so its answers have a fixed number of tokens (`ignore_eos`).
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
"""The last lines of the built-in prompts, which have 190 tokens. On a CPU the prefill of 32 such
prompts takes seconds at the beginning of a phase, the same in every arm, and would dominate it."""
MAX_LONG_ANSWER_TOKENS = 256
TOKENS_AROUND_MESSAGE = 8
"""Tokens that a chat template adds to a message; the bundled pair's template adds 7."""

SMALLEST_TURN_TOKENS = 64
"""Fewer tokens than the shortest built-in question and answer need together."""

CountTokens = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class TracePhase:
    """A stretch of constant traffic: a closed loop with one workload."""

    name: str
    workload: str
    """A name of `paceline.workloads`."""
    temperature: float
    concurrency: int
    is_long: bool = False
    """Whether each question follows earlier questions and answers."""


TRACE: tuple[TracePhase, ...] = (
    TracePhase("low predictable", "predictable", 0.0, 1),
    TracePhase("low hard", "hard", 1.0, 1),
    TracePhase("high hard", "hard", 1.0, 32),
    TracePhase("high predictable", "predictable", 0.0, 32),
    TracePhase("middle middling", "code", 0.0, 8),
    TracePhase("middle hard", "hard", 1.0, 8),
    TracePhase("middle predictable long", "predictable", 0.0, 8, is_long=True),
    TracePhase("low middling", "code", 0.0, 1),
)


@dataclass(frozen=True, slots=True)
class RequestMaker:
    """Builds the requests of every phase for one served model."""

    model: str
    context_tokens: int
    """Prompt and answer of a long request together."""
    count_tokens: CountTokens

    def requests(self, number: int, phase: TracePhase, repeat: int) -> Iterator[RequestSpec]:
        """Endless requests of phase `number`; the same ones for the same `repeat`."""
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
        elif _is_source(phase):
            prompts = [cut_to_end(p, MAX_CODE_PROMPT_TOKENS, self.count_tokens) for p in prompts]
        return build_specs(prompts, sampling)

    def _long_prompts(self, prompts: Sequence[Prompt], seed: int) -> list[Prompt]:
        """Each question after as many earlier ones with reference answers as fit."""
        room, count = self.context_tokens - MAX_LONG_ANSWER_TOKENS, self.count_tokens
        answers = reference_answers()
        questions = list(prompts)
        random.Random(seed).shuffle(questions)
        return [
            make_long(question, questions[at + 1 :] + questions[:at], answers, room, count)
            for at, question in enumerate(questions)
        ]


def cut_to_end(prompt: Prompt, max_tokens: int, count_tokens: CountTokens) -> Prompt:
    """The last whole lines that fit; the very last line stays, however long it is."""
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
    return Prompt(question.task, (*turns, *question.messages), None, MAX_LONG_ANSWER_TOKENS)


def _text_of(prompt: Prompt) -> str:
    assert prompt.messages is not None
    return str(prompt.messages[-1]["content"])


def reference_answers() -> dict[str, str]:
    """Reference answers by question, for all built-in chat questions."""
    items = json.loads(heldout_path().read_text(encoding="utf-8"))
    chats = itertools.filterfalse(lambda item: item.get("messages") is None, items)
    return {item["messages"][-1]["content"]: item["reference"] for item in chats}


def _is_source(phase: TracePhase) -> bool:
    """Whether the answers continue source code, which has no natural end."""
    return phase.workload in ("code", "hard")


def _max_tokens(phase: TracePhase) -> int | None:
    return MAX_CODE_TOKENS if _is_source(phase) else None


def _extra_body(phase: TracePhase) -> dict[str, Any]:
    """Request usage in every chunk: with speculation a chunk carries several tokens."""
    body: dict[str, Any] = {
        "stream_options": {"include_usage": True, "continuous_usage_stats": True}
    }
    if _is_source(phase):
        body["ignore_eos"] = True
    return body
