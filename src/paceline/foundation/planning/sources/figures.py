"""Refuse catalogue entries with figures that no plan can be computed from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from paceline.foundation.planning.values import PlanError

_POSITIVE = (
    "memory_mib",
    "bandwidth_gb_per_s",
    "gpus_per_machine",
    "usd_per_hour",
    "num_gpus",
    "gb_per_s",
    "bandwidth_fraction",
    "flops_fraction",
    "kv_block_tokens",
)
"""Figures of an entry, of its link, of a CPU core or of an offer."""


def refuse_wrong_figures(entry: Mapping[str, Any]) -> None:
    """Raise `PlanError` for a figure that is not a finite number above 0, or no number.

    A price may be null, and latencies and overheads may be 0.
    """
    name = entry["name"]
    for figure, value in _figures(entry):
        is_zero_allowed = figure.startswith(("overheads_us", "all_reduce_us"))
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if (
            not is_number
            or not math.isfinite(value)
            or value < 0
            or (value == 0 and not is_zero_allowed)
        ):
            least = "of at least 0" if is_zero_allowed else "above 0"
            raise PlanError(
                f"{figure} of {name} is {value!r}; it must be a finite number {least}. It is an "
                "entry of the file given with --catalogue"
            )


def _figures(entry: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    parts = (entry, entry.get("link", {}), entry.get("per_core", {}), *entry.get("offers", ()))
    for offer in entry.get("gpu_offers", ()):
        yield "usd_per_gpu_hour", offer["usd_per_gpu_hour"]
        yield from (("num_gpus", size) for size in offer["num_gpus"])
    for part in parts:
        for figure in _POSITIVE:
            if part.get(figure) is not None:
                yield figure, part[figure]
        for dtype, value in part.get("tflops", {}).items():
            yield f"tflops {dtype}", value
        if "all_reduce_us" in part:
            yield "all_reduce_us", part["all_reduce_us"]
        for overhead, value in part.get("overheads_us", {}).items():
            yield f"overheads_us {overhead}", value
