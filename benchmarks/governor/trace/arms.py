"""The compared arms, their order within a repeat, and the tuned table of the arm `table`."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.governor.trace.phases import TracePhase

MAX_DRAFT_LENGTH = 8
FIXED_LENGTHS = (0, 1, 2, 4, 8)
LEARNING_ARMS = ("threshold", "goodput")
"""Arms whose policies keep what they learned from one repeat to the next."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of choosing the draft length."""

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
    """The order within a repeat; it changes with each repeat, so that no arm is always first."""
    order = list(arms)
    random.Random(repeat).shuffle(order)
    return order


def tune_table(
    runs: Sequence[Mapping[str, Any]], phases: Sequence[TracePhase], max_num_seqs: int
) -> list[list[int]]:
    """For each concurrency of the trace, the fixed length with the most tokens over its phases.

    This is what an operator gets from a sweep over exactly the traffic to come. A range extends to
    the geometric mean of adjacent concurrencies; on a tie the shorter length wins. `runs` must be
    of fixed arms only. Raises ValueError without any.
    """
    lengths = {fixed_name(length): length for length in FIXED_LENGTHS}
    found = sorted({lengths[run["arm"]] for run in runs})
    if not found:
        raise ValueError("the table is tuned on runs of fixed lengths; there are none")
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
