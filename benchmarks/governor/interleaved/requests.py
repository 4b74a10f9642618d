"""The requests of a turn: prompt token ids and sampling parameters, equal for all arms."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.governor.interleaved.conversations import make_long, reference_answers
from benchmarks.governor.interleaved.phases import CHATS, NUM_BATCHES, Phase, Turn
from paceline.foundation.workloads import Prompt, load_prompt_file, load_workload

SHORT_PROMPT_TOKENS = 64
SHORT_ANSWERS = (48, 112)
LONG_ANSWERS = (160, 256)
PREFILL_ANSWERS = (32, 96)
"""Lowest and highest length of an answer, so that the requests of a loop end at different steps."""
CHAT_ANSWERS = (48, 96)
_CHAT_PROMPTS = Path(__file__).parents[2] / "headline" / "prompts.jsonl"
_TEMPERATURE = 0.7
BATCH_PROMPT_CHARACTERS, BATCH_ANSWER_TOKENS = 320, 64
_SHORTEST_PROMPT_TOKENS = 8

Encode = Callable[[Prompt], list[int]]
"""Token ids of a prompt; a chat prompt through the model's template."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request, ready for the engine."""

    ids: list[int]
    max_tokens: int
    ignore_eos: bool
    temperature: float
    seed: int


@dataclass(frozen=True, slots=True)
class RequestMaker:
    """Builds the requests of every turn for one tokenizer."""

    encode: Encode
    context_tokens: int
    """Tokens of a long prompt."""
    prefill_share: float
    """Of the prompt and output tokens of a `prefill` phase."""

    def order_for(self, turn: Turn) -> dict[str, Any]:
        """What the child needs to run this turn, as JSON values.

        `num_tokens` is None where the work is all requests to their end; otherwise the child
        repeats the requests, with other seeds, until it has that many output tokens.
        """
        phase = turn.phase
        is_batched = phase.kind == "batches"
        return {
            "op": "phase",
            "requests": [asdict(request) for request in self.requests(turn)],
            "concurrency": phase.requests,
            "num_tokens": None if is_batched else turn.num_tokens,
            "spreads_prefills": phase.kind == "prefill",
        }

    def requests(self, turn: Turn) -> list[Request]:
        """The requests of the turn, in order; the closed loop begins again after the last one."""
        phase, draw = turn.phase, random.Random(turn.seed)
        if phase.text in CHATS:
            return self._chats_of_a_chat_model(phase, turn.seed, draw)
        found: list[Request] = []
        if phase.text in ("predictable", "mixed"):
            found = [
                Request(ids, tokens, ignore_eos=False, temperature=0.0, seed=turn.seed)
                for ids, tokens in self._chats(phase, turn.seed)
            ]
        if phase.text != "predictable":
            temperature = 0.0 if phase.text == "code" else 1.0
            source = [
                Request(ids, tokens, True, temperature, turn.seed + index)
                for index, (ids, tokens) in enumerate(self._source(phase, turn.seed, draw))
            ]
            pairs = zip(found, source, strict=False)
            found = list(itertools.chain.from_iterable(pairs)) if found else source
        if phase.kind == "batches":
            found = list(itertools.islice(itertools.cycle(found), NUM_BATCHES * phase.requests))
        return found

    def _chats_of_a_chat_model(self, phase: Phase, seed: int, draw: random.Random) -> list[Request]:
        tasks = {"chat": ("chat",), "quote": ("edit",), "program": ("code",)}
        wanted = tasks.get(phase.text, ("chat", "edit", "code"))
        by_task = [
            [prompt for prompt in load_prompt_file(_CHAT_PROMPTS) if prompt.task == task]
            for task in wanted
        ]
        for prompts in by_task:
            draw.shuffle(prompts)
        in_turn = itertools.chain.from_iterable(zip(*by_task, strict=False))
        # As often as there are kinds of text, so that each kind has both samplings.
        temperatures = itertools.cycle([0.0] * len(wanted) + [_TEMPERATURE] * len(wanted))
        return [
            Request(
                self.encode(prompt), draw.randint(*CHAT_ANSWERS), True, temperature, seed + index
            )
            for index, (prompt, temperature) in enumerate(zip(in_turn, temperatures, strict=False))
        ]

    def _chats(self, phase: Phase, seed: int) -> list[tuple[list[int], int]]:
        """Renames and JSON, whose answers end by themselves at the same token in every arm.

        A `prefill` phase has JSON alone: its prompts are a third of its tokens.
        """
        workload = "json" if phase.kind == "prefill" else "predictable"
        prompts: Sequence[Prompt] = load_workload(workload).prompts(seed)
        if phase.kind == "long":
            answers = reference_answers()
            prompts = [
                make_long(
                    prompt,
                    [*prompts[at + 1 :], *prompts[:at]],
                    answers,
                    self.context_tokens,
                    self._count,
                )
                for at, prompt in enumerate(prompts[:40])
            ]
        return [(self.encode(prompt), prompt.max_tokens or 256) for prompt in prompts]

    def _count(self, text: str) -> int:
        return len(self.encode(Prompt("count", None, text, None)))

    def _source(self, phase: Phase, seed: int, draw: random.Random) -> list[tuple[list[int], int]]:
        """Source code; the answers have fixed lengths."""
        prompts = load_workload("code").prompts(seed)
        if phase.kind == "batches":
            ends = [
                Prompt(p.task, None, (p.text or "")[-BATCH_PROMPT_CHARACTERS:], None)
                for p in prompts
            ]
            return [(self.encode(prompt), BATCH_ANSWER_TOKENS) for prompt in ends]
        texts = [ids for ids in map(self.encode, prompts) if len(ids) >= _SHORTEST_PROMPT_TOKENS]
        if phase.kind == "long":
            return [
                (_preceded(texts, at, self.context_tokens), draw.randint(*LONG_ANSWERS))
                for at in range(len(texts))
            ]
        if phase.kind == "prefill":
            made = []
            for ids in texts:
                tokens = draw.randint(*PREFILL_ANSWERS)
                ratio = self.prefill_share / (1 - self.prefill_share)
                made.append((ids[-max(round(ratio * tokens), 1) :], tokens))
            return made
        return [(ids[-SHORT_PROMPT_TOKENS:], draw.randint(*SHORT_ANSWERS)) for ids in texts]


def _preceded(texts: Sequence[list[int]], at: int, num_tokens: int) -> list[int]:
    """Text `at` after the texts before it, cut to its last `num_tokens`."""
    found = list(texts[at])
    before = at - 1
    while len(found) < num_tokens and before > at - len(texts):
        found = texts[before] + found
        before -= 1
    return found[-num_tokens:]
