"""Ordinary and extreme step samples for the contract checks, the same ones on every run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from paceline.runtime.governor.acceptance.confidence_map import Floats
from paceline.runtime.governor.values import EngineLoad, StepSample

_GOLDEN = 0.6180339887498949
"""Its multiples, taken modulo 1, fill the interval from 0 to 1 evenly."""


def ordinary_sample(**changes: Any) -> StepSample:
    """A step of four requests at draft length 3, with `changes` to its fields."""
    fields: dict[str, Any] = {
        "num_requests": 4,
        "requested_draft_length": 3,
        "drafted": (3, 3, 3, 0),
        "accepted": (0, 1, 3, 0),
        "verified_draft_tokens": 9,
        "draft_length": 3,
        "prefill_tokens": 0,
        "context_tokens": 900,
        "duration_s": 0.03,
        "is_clean": True,
    }
    return StepSample(**(fields | changes))


def ordinary_load(max_draft_length: int, **changes: Any) -> EngineLoad:
    """A load of four requests, with `changes` to its fields."""
    fields: dict[str, Any] = {
        "num_requests": 4,
        "context_tokens": 900,
        "prefill_tokens": 0,
        "num_waiting": 0,
        "max_draft_length": max_draft_length,
    }
    return EngineLoad(**(fields | changes))


def rich_load(max_draft_length: int, **changes: Any) -> EngineLoad:
    """The same in an engine that has all abilities: half of the requests greedy, half sampled."""
    num_requests = changes.get("num_requests", 4)
    fields: dict[str, Any] = {
        "reports_confidences": True,
        "classes": {"greedy": num_requests - num_requests // 2, "sampled": num_requests // 2},
    }
    return ordinary_load(max_draft_length, **(fields | changes))


def varied_samples(num_samples: int, max_draft_length: int, *, seed: int = 0) -> list[StepSample]:
    """Samples of a healthy engine whose load, lengths and acceptance vary."""
    spread = Spread(seed)
    requested = 0
    samples = []
    for _ in range(num_samples):
        length, num_requests = spread.whole(max_draft_length), 1 + spread.whole(7)
        drafts = np.empty((num_requests, requested))
        samples.append(step_of(spread, drafts, [requested] * num_requests, length))
        requested = length
    return samples


def step_of(
    spread: Spread,
    confidences: Floats,
    widths: Sequence[int],
    draft_length: int,
    classes: tuple[str, ...] = (),
) -> StepSample:
    """A clean step that verifies `widths` tokens of the drafts with these confidences; without
    `classes`, the engine reports no confidences."""
    num_requests, requested = confidences.shape
    drafted = tuple(widths) if requested else ()
    rows = zip(confidences.tolist(), drafted, strict=True) if drafted and classes else ()
    return ordinary_sample(
        num_requests=num_requests,
        requested_draft_length=requested,
        drafted=drafted,
        accepted=tuple(spread.whole(count) for count in drafted),
        verified_draft_tokens=sum(drafted),
        draft_length=draft_length,
        duration_s=0.02 + 0.001 * sum(drafted) + 0.001 * spread.fraction(),
        judged=tuple(f"request-{number}" for number in range(len(drafted))),
        requested=drafted if classes else (),
        classes=classes if drafted else (),
        confidences=tuple(tuple(row[:width]) for row, width in rows),
    )


def varied_confidences(spread: Spread, num_requests: int, num_passes: int) -> Floats:
    """Confidences between 0 and 1, (num_requests, num_passes)."""
    numbers = [spread.fraction() for _ in range(num_requests * num_passes)]
    confidences: Floats = np.array(numbers).reshape(num_requests, num_passes)
    return confidences


def extreme_samples(max_draft_length: int) -> dict[str, list[StepSample]]:
    """Samples that a faulty engine, clock or drafter could produce, by what is wrong."""
    sample, top = ordinary_sample, max_draft_length

    def many(num_samples: int = 50, **changes: Any) -> list[StepSample]:
        return [sample(**changes)] * num_samples

    crowd: dict[str, Any] = {
        "num_requests": 256,
        "requested_draft_length": top,
        "draft_length": top,
        "drafted": (top,) * 256,
        "verified_draft_tokens": 256 * top,
    }
    accepted, rejected = (sample(**crowd, accepted=(count,) * 256) for count in (top, 0))
    deep = 2 * top + 4
    too_deep = sample(
        requested_draft_length=deep, drafted=(deep,), accepted=(deep,), verified_draft_tokens=deep
    )
    unjudged: dict[str, Any] = {"drafted": (), "accepted": ()}
    greedy = ("greedy",) * 4
    sure = ((0.0, 1.0, 0.0),) * 3 + ((),)
    absurd = ((math.nan, math.inf, -1.0),) * 3 + ((),)
    return {
        "durations of zero": many(duration_s=0.0),
        "one duration of zero": [sample(), sample(duration_s=0.0), sample()],
        "no durations": many(duration_s=None),
        "steps of eleven days": many(duration_s=1e6),
        "steps of a picosecond": many(duration_s=1e-12),
        "durations that grow tenfold": [sample(duration_s=10.0**power) for power in range(-12, 7)],
        "nothing judged": many(**unjudged),
        "no requests": many(9, num_requests=0, verified_draft_tokens=0, **unjudged),
        "no clean step": many(is_clean=False),
        "prefills only": many(prefill_tokens=8192, is_clean=False, **unjudged),
        "prompts that do not end": many(prefill_tokens=8192, num_prefilling=4, **unjudged),
        "prompts beside every decode": many(200, prefill_tokens=8192, num_prefilling=1),
        "catching up in every step": many(catches_up=True, is_clean=False),
        "catching up without context": many(9, catches_up=True, context_tokens=0),
        "256 requests, all drafts accepted": [accepted] * 300,
        "256 requests, no draft accepted": [rejected] * 300,
        "acceptance that alternates in every step": [accepted, rejected] * 99,
        "ten million tokens of context": many(context_tokens=10**7),
        "drafts that were not requested": many(requested_draft_length=0),
        "drafts longer than the ceiling": [too_deep] * 50,
        "one stale sample again and again": many(300),
        "a new class in every request": [
            sample(classes=tuple(f"class {4 * step + row}" for row in range(4)))
            for step in range(200)
        ],
        "classes that vanish": [sample(classes=("greedy", "sampled") * 2), sample()] * 50,
        "confidences without classes": many(confidences=((0.5,) * 3,) * 3 + ((),)),
        "confidences of 0 and 1": many(classes=greedy, confidences=sure),
        "confidences that are none": many(classes=greedy, confidences=absurd),
    }


class Spread:
    """Evenly spread numbers in a fixed order; another seed gives another order."""

    def __init__(self, seed: int) -> None:
        self._number = 1 + 10_007 * seed

    def fraction(self) -> float:
        """A number from 0 to 1."""
        self._number += 1
        return (self._number * _GOLDEN) % 1.0

    def whole(self, highest: int) -> int:
        """A whole number from 0 to `highest`."""
        return int(self.fraction() * (highest + 1))
