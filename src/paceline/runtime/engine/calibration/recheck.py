"""Decide whether a stored table still holds, from a few steps of this start. Pure.

A machine may be faster or slower than when the table was measured, as a whole: the governor
follows that while it runs. The table is wrong if steps have become slower in different proportions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from paceline.foundation.capacity.cost_table import CostTable
from paceline.runtime.engine.calibration.plan import StepKind

_MAX_CHECK_STEP_S = 0.15
"""A round runs each of five kinds three times, and a step to begin each: 3 s at most, and 0.3 s on
the bundled pair."""
_MAX_DEVIATION = 0.15
"""Chosen empirically: repeats of a step on an idle two-core machine differ by 5 %."""
REPEATS = 3
"""Steps of each kind in a round, after a first one. Their median counts, as in the table."""
MAX_ATTEMPTS = 5
"""Rounds of checks until the table holds: on a busy machine one round does not give the usual
duration of each kind. Measuring anew takes ten times as long as a round."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the checks say of a stored table."""

    holds: bool
    slowdown: float
    """Duration of a step now, relative to the table: the median of the checks."""
    largest_deviation: float
    """Of a check from that, as a fraction."""


def kinds_to_check(table: CostTable, *, resting_length: int) -> tuple[StepKind, ...]:
    """Five kinds of the table at most, fewer where it has few cells: decoding alone at the smallest
    and a middle size, drafting at the smallest, verifying and drafting at the largest size whose
    steps are short."""
    longest = table.lengths[-1]
    short = [
        n
        for n in table.sizes
        if max(
            table.step_s(n, verified_tokens=longest, draft_length=0),
            table.step_s(n, verified_tokens=0, draft_length=longest),
        )
        <= _MAX_CHECK_STEP_S
    ]
    smallest, largest = table.sizes[0], (short or table.sizes[:1])[-1]
    middle = table.sizes[len([n for n in table.sizes if n <= largest]) // 2]
    kinds = (
        StepKind(smallest, 0, resting_length, table.context_tokens),
        StepKind(smallest, 0, longest, table.context_tokens),
        StepKind(middle, 0, resting_length, table.context_tokens),
        StepKind(largest, longest, resting_length, table.context_tokens),
        StepKind(largest, 0, longest, table.context_tokens),
    )
    return tuple(dict.fromkeys(kinds))


def judge(table: CostTable, seconds: Mapping[StepKind, float]) -> Verdict:
    """Compare steps with the table; at least one.

    >>> table = CostTable((1,), (0, 2), ((0.01, 0.02),), ((0.0, 0.02),))
    >>> kinds = [StepKind(1, 0, 0, 0), StepKind(1, 2, 0, 0), StepKind(1, 0, 2, 0)]
    >>> judge(table, dict(zip(kinds, [0.02, 0.04, 0.06], strict=True)))
    Verdict(holds=True, slowdown=2.0, largest_deviation=0.0)
    >>> judge(table, dict(zip(kinds, [0.02, 0.05, 0.06], strict=True))).holds
    False
    """
    ratios = [
        step_s
        / table.step_s(
            kind.num_requests,
            verified_tokens=kind.num_requests * kind.verified_tokens,
            draft_length=kind.draft_length,
        )
        for kind, step_s in seconds.items()
    ]
    slowdown = median(ratios)
    deviation = max(abs(ratio / slowdown - 1.0) for ratio in ratios)
    return Verdict(deviation <= _MAX_DEVIATION, slowdown, deviation)
