"""How near a policy's draft lengths are to the best one, and how soon.

The best length of a phase is chosen on other repeats than the one whose steps are judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.governor.interleaved.analysis import Findings, relative
from benchmarks.governor.interleaved.measured import Floats, Ints, Measured, Steps

NEAR = 1
"""Greatest difference between a near length and the best one."""
GOOD_FRACTION = 0.97
"""A length is good when its rate is at least this share of the best length's."""
WINDOW_STEPS, WINDOW_FRACTION = 10, 0.8
"""A policy has adapted at the first window with that share of near lengths."""


@dataclass(frozen=True, slots=True)
class LengthFinding:
    """One policy in one phase; shares of counted steps over all turns."""

    arm: str
    phase: int
    best: tuple[int, ...]
    """The best length by repeat."""
    near: float
    near_second_half: float
    """In the second half of each turn: after the change to the phase."""
    good: float
    near_while_slowed: float | None
    """None without a slow-down."""
    exploring: float
    changes_per_100_steps: float
    visited: tuple[tuple[int, float], ...]
    """Lengths and their share of steps, the most frequent first."""
    adapted_after_steps: float | None
    """Median over the turns; None when at least half of them did not."""
    prompt_share: float
    """Of the scheduled tokens."""
    steps_with_prompts: float
    reasons: tuple[tuple[str, float], ...]
    """The most frequent reasons of the plans, with their share of steps."""


def find_lengths(measured: Measured, findings: Findings) -> list[LengthFinding]:
    """One finding for each policy and phase."""
    lengths = [measured.fixed.get(arm, 0) for arm in findings.candidates]
    rates = np.stack([measured.rates[arm] for arm in findings.candidates])
    good = good_lengths(rates, np.asarray(lengths))
    return [
        _find(measured, arm, phase, findings.oracle[:, phase], lengths, good)
        for arm in measured.policies
        for phase in range(len(measured.phases))
    ]


def good_lengths(rates: Floats, lengths: Ints) -> list[list[set[int]]]:
    """By repeat and phase, the lengths whose rate on the other repeats is near the best one.

    Lengths between two measured ones are interpolated.
    """
    order = np.argsort(lengths, kind="stable")
    known, every = lengths[order], np.arange(lengths.max() + 1)
    logs = relative(rates)[order]
    num_repeats, num_phases = rates.shape[1:]
    found = []
    for repeat in range(num_repeats):
        others = [r for r in range(num_repeats) if r != repeat or num_repeats == 1]
        means = logs[:, others].mean(axis=1)
        row = []
        for phase in range(num_phases):
            curve = np.interp(every, known, means[:, phase])
            row.append(set(every[curve >= curve.max() + np.log(GOOD_FRACTION)].tolist()))
        found.append(row)
    return found


def adapted_after(near: Ints) -> int | None:
    """Steps before the first window of near lengths begins; None when there is none.

    >>> adapted_after(np.array([0] * 5 + [1] * 10))
    3
    """
    if len(near) < WINDOW_STEPS:
        return None
    sums = np.convolve(near, np.ones(WINDOW_STEPS, dtype=np.int64), mode="valid")
    first = np.flatnonzero(sums >= WINDOW_FRACTION * WINDOW_STEPS)
    return int(first[0]) if len(first) else None


def _find(
    measured: Measured,
    arm: str,
    phase: int,
    oracle: Ints,
    lengths: list[int],
    good: list[list[set[int]]],
) -> LengthFinding:
    turns = measured.turns[arm, phase]
    best = [lengths[index] for index in oracle]
    near = [(np.abs(steps.planned - best[row]) <= NEAR).astype(np.int64) for row, steps in turns]
    is_good = [np.isin(steps.planned, list(good[row][phase])) for row, steps in turns]
    slowed = [one[steps.slowed == 1] for one, (_, steps) in zip(near, turns, strict=True)]
    whole = [steps for _, steps in turns]
    num_steps = sum(len(steps.planned) for steps in whole)
    changes = sum(int(np.count_nonzero(np.diff(steps.planned))) for steps in whole)
    after = [adapted_after(one) for one in near]
    is_usual = sum(one is not None for one in after) > len(after) / 2
    counted = [float("inf") if one is None else float(one) for one in after]
    reasons = Counter(reason for steps in whole for reason in steps.reasons)
    return LengthFinding(
        arm=arm,
        phase=phase,
        best=tuple(best),
        near=_share(near),
        near_second_half=_share([one[len(one) // 2 :] for one in near]),
        good=_share(is_good),
        near_while_slowed=_share(slowed) if any(map(len, slowed)) else None,
        exploring=_share([steps.exploring for steps in whole]),
        changes_per_100_steps=100 * changes / num_steps,
        visited=_visited(whole),
        adapted_after_steps=float(np.median(counted)) if is_usual else None,
        prompt_share=sum(int(steps.prompt_tokens.sum()) for steps in whole)
        / max(sum(int(steps.scheduled_tokens.sum()) for steps in whole), 1),
        steps_with_prompts=_share([steps.prompt_tokens > 0 for steps in whole]),
        reasons=tuple((reason, n / num_steps) for reason, n in reasons.most_common(3)),
    )


def _visited(turns: list[Steps]) -> tuple[tuple[int, float], ...]:
    counts = Counter(int(length) for steps in turns for length in steps.planned)
    total = sum(counts.values())
    return tuple((length, number / total) for length, number in counts.most_common())


def _share(parts: Sequence[NDArray[np.int64] | NDArray[np.bool_]]) -> float:
    return float(np.concatenate(parts).mean()) if parts else float("nan")
