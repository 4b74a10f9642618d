"""What each arm reaches of the best held draft length of a phase.

The best length of a repeat is chosen on the other repeats, where there are any. `table` is vLLM's
length table, tuned on the same machine: it has one length for each number of requests, the best one
over all phases with that number, chosen on the other repeats. The number of requests is constant in
a phase, so the table's rate is that of its length, held, and needs no turns of its own.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Sequence
from typing import Any

from benchmarks.gpu.phases import LoadPhase, Turn

TABLE = "table"


class _Rates:
    """The rates of all turns by phase, arm and repeat."""

    def __init__(self, turns: Sequence[Turn]) -> None:
        self._rates = {(t.phase, t.arm, t.repeat): t.tokens_per_s for t in turns}
        self.arms = list(dict.fromkeys(turn.arm for turn in turns))
        self.lengths = [arm for arm in self.arms if arm.startswith("K=")]
        self.held = [arm for arm in self.arms if arm == "none" or arm in self.lengths]
        self.repeats = sorted({turn.repeat for turn in turns})

    def of(self, phase: str, arm: str, repeat: int) -> float:
        return self._rates[phase, arm, repeat]

    def best(self, phases: Collection[str], arms: Sequence[str], repeats: Sequence[int]) -> str:
        """The arm with the highest mean of the logarithm of its rate."""
        return max(
            arms,
            key=lambda arm: statistics.fmean(
                math.log(self.of(phase, arm, repeat)) for phase in phases for repeat in repeats
            ),
        )

    def others(self, repeat: int) -> list[int]:
        return [other for other in self.repeats if other != repeat] or [repeat]


def compare(turns: Sequence[Turn], phases: Sequence[LoadPhase]) -> list[dict[str, Any]]:
    """One row for each phase and each arm but the held ones; every arm ran in every phase.

    The rate over that of the best held length, lowest to highest, and n; no rows without held ones.
    """
    rates = _Rates(turns)
    compared = [arm for arm in rates.arms if arm not in rates.held]
    if rates.lengths:
        compared.append(TABLE)
    rows = []
    for phase in phases if rates.held else ():
        alike = [other.name for other in phases if other.num_requests == phase.num_requests]
        for arm in compared:
            ratios = []
            for repeat in rates.repeats:
                others = rates.others(repeat)
                ran = rates.best(alike, rates.lengths, others) if arm == TABLE else arm
                best = rates.best([phase.name], rates.held, others)
                ratios.append(
                    rates.of(phase.name, ran, repeat) / rates.of(phase.name, best, repeat)
                )
            rows.append(
                {
                    "phase": phase.name,
                    "arm": arm,
                    "best": rates.best([phase.name], rates.held, rates.repeats),
                    "lowest": min(ratios),
                    "median": statistics.median(ratios),
                    "highest": max(ratios),
                    "n": len(ratios),
                }
            )
    return rows


def render_rows(rows: Sequence[dict[str, Any]]) -> str:
    """One line for each row."""
    return "\n".join(
        f"{row['phase']:34s} {row['arm']:16s} {row['median']:.3f} of {row['best']} "
        f"({row['lowest']:.3f} to {row['highest']:.3f}, n = {row['n']})"
        for row in rows
    )
