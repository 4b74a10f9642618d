"""The load and the step time of an engine between each two readings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.operations.doctor.readings.engines import EngineReading
from paceline.operations.doctor.readings.observation import growth


@dataclass(frozen=True, slots=True)
class StepPoint:
    """One stretch between two readings."""

    num_requests: float
    """In decode at a time."""
    step_s: float
    """Time between two steps of a request."""
    weight: float
    """Steps, summed over requests."""
    prompt_tokens_per_step: float | None
    """None where the server does not report prompt tokens per engine."""


def step_points(readings: Sequence[EngineReading]) -> list[StepPoint]:
    """One point per stretch in which something was decoded."""
    points = []
    for pair in itertools.pairwise(readings):
        point = _of_vllm(pair) or _of_governor(pair)
        if point is not None:
            points.append(point)
    return points


def pooled(points: Sequence[StepPoint], max_points: int) -> list[StepPoint]:
    """At most this many points: adjacent ones are joined, with their weights.

    A point without prompt tokens leaves its joined one without.
    """
    size = math.ceil(len(points) / max_points)
    if size <= 1:
        return list(points)
    return [_joined(points[start : start + size]) for start in range(0, len(points), size)]


def _joined(points: Sequence[StepPoint]) -> StepPoint:
    weight = sum(point.weight for point in points)
    prompts = [point.prompt_tokens_per_step for point in points]
    known = [one for one in prompts if one is not None]
    weights = [point.weight / weight for point in points]
    return StepPoint(
        sum(share * point.num_requests for share, point in zip(weights, points, strict=True)),
        sum(share * point.step_s for share, point in zip(weights, points, strict=True)),
        weight,
        sum(share * one for share, one in zip(weights, known, strict=True))
        if len(known) == len(points)
        else None,
    )


def _of_vllm(pair: Sequence[EngineReading]) -> StepPoint | None:
    """By Little's law, from the time between tokens summed over requests."""
    elapsed_s = pair[1].at_s - pair[0].at_s
    decode_s = growth(pair, lambda one: one.decode_s_total)
    steps = growth(pair, lambda one: one.decode_steps_total)
    if not decode_s or not steps or elapsed_s <= 0:
        return None
    prompt = growth(pair, lambda one: one.prompt_tokens_total)
    num_requests = decode_s / elapsed_s
    # All requests in decode share the engine's steps.
    engine_steps = steps / max(1.0, num_requests)
    return StepPoint(
        num_requests, decode_s / steps, steps, None if prompt is None else prompt / engine_steps
    )


def _of_governor(pair: Sequence[EngineReading]) -> StepPoint | None:
    """From the time in steps, each of which verifies one draft per request."""
    engine_s = growth(pair, lambda one: one.engine_s_total)
    steps = growth(pair, lambda one: one.engine_steps_total)
    drafts = growth(pair, lambda one: one.drafts_total)
    if not engine_s or not steps or not drafts:
        return None
    return StepPoint(drafts / steps, engine_s / steps, drafts, None)
