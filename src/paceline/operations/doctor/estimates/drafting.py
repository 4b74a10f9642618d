"""`Drafting`: what an engine's drafts did over an observation."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from paceline.operations.doctor.estimates.correlated_fit import MAX_VALUES, design_of
from paceline.operations.doctor.estimates.step_points import StepPoint, step_points
from paceline.operations.doctor.readings.engines import EngineReading
from paceline.operations.doctor.readings.observation import growth
from paceline.operations.doctor.values import CannotJudge, Lacking

_MIN_DRAFTS = 100
"""Fewer leave an error of more than 0.1 in the accepted tokens per draft. Chosen empirically."""
_MIN_STRETCHES = 5
"""Fewer say little about how acceptance changes. Chosen empirically."""


@dataclass(frozen=True, slots=True)
class Drafting:
    """Means over the steps of all requests."""

    points: tuple[StepPoint, ...]
    """Load and step time, one or more."""
    tokens_per_s: float
    """Output tokens per second of the engine."""
    drafts: float
    draft_length: float
    """Draft tokens per draft."""
    accepted_per_draft: float
    accepted_error: float
    """Half of the 95 % interval of `accepted_per_draft`."""
    reached: tuple[float, ...]
    """Fraction of drafts accepted up to each position, (max_draft_length,)."""
    has_one_length: bool
    """Whether every draft had the longest length."""

    @property
    def accepted_fraction(self) -> float:
        """Of all draft tokens."""
        return self.accepted_per_draft / self.draft_length

    @property
    def num_requests(self) -> float:
        """In decode at a time, as the steps saw it."""
        return self._mean(lambda point: point.num_requests)

    @property
    def step_s(self) -> float:
        return self._mean(lambda point: point.step_s)

    def _mean(self, figure: Callable[[StepPoint], float]) -> float:
        total = sum(point.weight for point in self.points)
        return sum(figure(point) * point.weight for point in self.points) / total


def drafting_of(readings: Sequence[EngineReading]) -> Drafting:
    """What the drafts did. Raises CannotJudge if the engine does not draft, or too little."""
    if readings[-1].drafts_total is None:
        raise CannotJudge("the engine shows no drafts: it runs without speculation, or hides them")
    drafts = growth(readings, lambda one: one.drafts_total)
    drafted = growth(readings, lambda one: one.drafted_tokens_total)
    accepted = growth(readings, lambda one: one.accepted_tokens_total)
    if drafts is None or drafted is None or accepted is None:
        raise CannotJudge("a counter of drafts fell: the engine restarted while it was observed")
    if drafts < _MIN_DRAFTS or drafted <= 0:
        raise CannotJudge(
            f"{drafts:.0f} drafts were verified; {_MIN_DRAFTS} are needed", Lacking.REQUESTS
        )
    points = tuple(step_points(readings))
    tokens = growth(readings, lambda one: one.generation_tokens_total)
    if readings[-1].engine_steps_total is not None:
        tokens = drafts + accepted  # the gateway reads the engine's own count every few seconds
    elapsed_s = readings[-1].at_s - readings[0].at_s
    if not points or not tokens or elapsed_s <= 0:
        raise CannotJudge("the server does not show the time of its steps")
    reached = _reached(readings, drafts)
    per_draft = accepted / drafts
    # E[A^2] is the sum of (2 j - 1) P(A >= j); without positions, A is at most the draft length.
    square = sum((2 * j + 1) * share for j, share in enumerate(reached))
    variance = (square - per_draft**2) if reached else per_draft * (drafted / drafts - per_draft)
    return Drafting(
        points=points,
        tokens_per_s=tokens / elapsed_s,
        drafts=drafts,
        draft_length=drafted / drafts,
        accepted_per_draft=per_draft,
        accepted_error=max(2 * math.sqrt(max(0.0, variance) / drafts), _error_over_time(readings)),
        reached=reached,
        has_one_length=bool(reached) and drafted / drafts > 0.98 * len(reached),
    )


def _error_over_time(readings: Sequence[EngineReading]) -> float:
    """Half of the 95 % interval of the accepted tokens per draft, from how they differ over time.

    Drafts of one text are accepted alike, so they are worth less than as many independent ones. 0
    where the stretches with drafts are too few to show it.
    """
    size = math.ceil(max(1, len(readings) - 1) / MAX_VALUES)
    stretches = []
    for pair in itertools.pairwise([*readings[:-1:size], readings[-1]]):
        drafts = growth(pair, lambda one: one.drafts_total)
        accepted = growth(pair, lambda one: one.accepted_tokens_total)
        if drafts and accepted is not None:
            stretches.append((drafts, accepted))
    if len(stretches) < _MIN_STRETCHES:
        return 0.0
    drafts_of, accepted_of = np.array(stretches, dtype=float).T
    roots = np.sqrt(drafts_of)
    design = design_of(roots[:, None])
    return 0.0 if design is None else float(design.fit(accepted_of / roots).margins[0])


def _reached(readings: Sequence[EngineReading], drafts: float) -> tuple[float, ...]:
    before = readings[0].accepted_per_position_total
    after = readings[-1].accepted_per_position_total
    earlier = (*before, *([0.0] * (len(after) - len(before))))
    return tuple(max(0.0, b - a) / drafts for a, b in zip(earlier, after, strict=False))
