"""Which arms are compared, on which server, in which order, and with which table?"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.governor.phases import TracePhase

MAX_DRAFT_LENGTH = 8
FIXED_LENGTHS = (0, 1, 2, 4, 8)
LEARNING_ARMS = ("threshold", "goodput")
"""Their policies keep what they learned from one repeat to the next."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to choose the draft length."""

    name: str
    server: str
    """`plain`, started without speculation, or `drafted`."""
    governor: Mapping[str, Any] | None
    """Sent as PATCH /admin/governor before each run; None where there is no governor."""


def fixed_name(length: int) -> str:
    return f"K={length}"


FIXED_ARMS = tuple(fixed_name(length) for length in FIXED_LENGTHS)
ARMS: dict[str, Arm] = {
    "none": Arm("none", "plain", None),
    **{
        fixed_name(length): Arm(fixed_name(length), "drafted", {"draft_length": length})
        for length in FIXED_LENGTHS
    },
    "table": Arm("table", "drafted", {"policy": "schedule"}),
    "threshold": Arm("threshold", "drafted", {"policy": "threshold"}),
    "goodput": Arm("goodput", "drafted", {"policy": "goodput"}),
}


def order_of(arms: Sequence[str], repeat: int) -> list[str]:
    """The order within a repeat: another one each time, so that no arm always comes first."""
    order = list(arms)
    random.Random(repeat).shuffle(order)
    return order


def tune_table(
    runs: Sequence[Mapping[str, Any]], phases: Sequence[TracePhase], max_num_seqs: int
) -> list[list[int]]:
    """The length that yielded most at each concurrency of the trace, all its phases together.

    What a careful operator gets from a sweep over the very traffic to come. A range reaches halfway
    (geometrically) to the neighbouring concurrencies; of equals the shorter length wins. `runs` are
    of fixed arms only. ValueError without any.
    """
    lengths = {fixed_name(length): length for length in FIXED_LENGTHS}
    found = sorted({lengths[run["arm"]] for run in runs})
    if not found:
        raise ValueError("a table is tuned on runs of fixed lengths; there are none")
    loads = sorted({phase.concurrency for phase in phases})
    table = []
    lowest = 1
    for index, load in enumerate(loads):
        is_last = index == len(loads) - 1
        highest = max_num_seqs if is_last else math.isqrt(load * loads[index + 1])
        here = [number for number, phase in enumerate(phases) if phase.concurrency == load]
        tokens = [_mean_tokens(runs, fixed_name(length), here) for length in found]
        best = found[tokens.index(max(tokens))]
        table.append([lowest, highest, best])
        lowest = highest + 1
    return table


def _mean_tokens(runs: Sequence[Mapping[str, Any]], arm: str, phases: Sequence[int]) -> float:
    mine = [run for run in runs if run["arm"] == arm]
    total = float(sum(run["phases"][number]["tokens"] for run in mine for number in phases))
    return total / len(mine)
