"""How often the gate rejects a fault, by its size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

DETECTED = 0.95
"""Fraction of the seeds in which a size must be rejected to be called detected."""


@dataclass(frozen=True, slots=True)
class Detection:
    """One point of a curve."""

    size: float
    num_rejected: int
    num_seeds: int


def detection_curve(runs: Sequence[Mapping[str, Any]], name: str) -> list[Detection]:
    """The verdicts on a fault, by ascending size."""
    mine = [one for one in runs if one["name"] == name]
    return [
        Detection(
            size,
            sum(one["verdict"] == "rejected" for one in mine if one["size"] == size),
            sum(one["size"] == size for one in mine),
        )
        for size in sorted({one["size"] for one in mine})
    ]


def detected_size(curve: Sequence[Detection]) -> float | None:
    """The smallest size from which on every size is rejected in 95 % of the seeds.

    None if the largest is not.
    """
    found = None
    for one in reversed(curve):
        if one.num_rejected < DETECTED * one.num_seeds:
            break
        found = one.size
    return found


def summarize(runs: Sequence[Mapping[str, Any]]) -> str:
    """The verdicts so far, in a line."""
    sound = [one for one in runs if one["is_sound"]]
    faults = dict.fromkeys(one["name"] for one in runs if not one["is_sound"])
    sizes = ", ".join(f"{name} {detected_size(detection_curve(runs, name))}" for name in faults)
    rejected, approved = (
        sum(one["verdict"] == verdict for one in sound) for verdict in ("rejected", "approved")
    )
    return (
        f"of {len(sound)} sound ones {rejected} rejected and {approved} approved; "
        f"detected from: {sizes}"
    )
