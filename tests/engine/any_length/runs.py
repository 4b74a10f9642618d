"""Run requests through a `SamplingBatch` at fixed and at changing draft lengths."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from engine.any_length.batch import VOCABULARY, Case, Output, SamplingBatch
from paceline.runtime.engine.fixes.undrafted_requests import forbids_drafts

MAX_DRAFT_LENGTH = 3
NO_SPECULATION = "no_speculation"

LengthOf = Callable[[int, random.Random], int]
"""The draft length of one request in a step, by the step's number."""

LENGTHS: Mapping[str, LengthOf] = {
    NO_SPECULATION: lambda step, rng: 0,
    "length_0": lambda step, rng: 0,
    "length_3": lambda step, rng: MAX_DRAFT_LENGTH,
    "changing": lambda step, rng: (0, 3, 0, 0, 1, 2, 0, 3)[step % 8],
    "per_request": lambda step, rng: rng.choice((0, 0, 1, 2, 3)),
}
"""`no_speculation`: the engine is not configured to speculate. `per_request`: each request has a
length of its own in each step, as with an n-gram drafter."""


def batch_for(lengths: str, **arguments: Any) -> SamplingBatch:
    """An empty batch of an engine that speculates, or does not."""
    max_draft_length = 0 if lengths == NO_SPECULATION else MAX_DRAFT_LENGTH
    return SamplingBatch(max_draft_length=max_draft_length, **arguments)


def run(
    batch: SamplingBatch,
    cases: Mapping[str, Case],
    wanted: Mapping[str, Output],
    length_of: LengthOf,
    *,
    seed: int,
) -> dict[str, Output]:
    """Run all requests in one batch, in which they join one by one, leave and swap rows.

    Three of four draft tokens are what the request produces alone. A request that forbids drafts
    gets none.
    """
    rng = random.Random(seed)
    waiting, running = list(cases), list[str]()
    for step in range(10_000):
        ended = [n for n in running if len(batch.outputs[n].tokens) >= cases[n].num_tokens]
        running = [n for n in running if n not in ended]
        drafts = {
            name: draft(wanted[name].tokens, batch.outputs[name].tokens, length_of(step, rng), rng)
            for name in running
            if not forbids_drafts(cases[name].sampling_params())
        }
        swap = tuple(rng.sample(running, 2)) if len(running) > 1 and rng.random() < 0.3 else None
        joining = [waiting.pop() for _ in range(2 if step == 0 else 1) if waiting]
        running += joining
        if not running:
            break
        batch.step(drafts, add={n: cases[n] for n in joining}, remove=ended, swap=swap)
    return batch.outputs


def draft(tokens: list[int], output: list[int], length: int, rng: random.Random) -> list[int]:
    """`length` draft tokens after `output`; three of four are those of `tokens`."""
    positions = range(len(output), len(output) + length)
    return [
        tokens[i] if i < len(tokens) and rng.random() < 0.75 else rng.randrange(VOCABULARY)
        for i in positions
    ]
