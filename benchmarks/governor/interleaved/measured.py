"""The raw result as arrays: rates by repeat and phase, and the steps of every turn."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FIXED = re.compile(r"K=\d+")
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Steps:
    """The counted steps of one arm in one turn, without the lead-in; all (num_steps,)."""

    planned: Ints
    """Draft length that the governor chose in each step."""
    seconds: Floats
    exploring: Ints
    slowed: Ints
    scheduled_tokens: Ints
    prompt_tokens: Ints
    reasons: tuple[str, ...]
    """Of each step, with numbers replaced by #."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The complete repeats."""

    arms: tuple[str, ...]
    phases: tuple[str, ...]
    """Distinct phases, in the order of the plan."""
    rates: Mapping[str, Floats]
    """Tokens per second by arm, (num_repeats, num_phases)."""
    work: Floats
    """Output tokens of each phase, (num_repeats, num_phases): the mean over the arms."""
    turns: Mapping[tuple[str, int], tuple[tuple[int, Steps], ...]]
    """By arm and number of the phase: repeat and steps of each turn."""
    policy_errors: Mapping[str, int]

    @property
    def num_repeats(self) -> int:
        return len(self.work)

    @property
    def fixed(self) -> dict[str, int]:
        """The arms of fixed lengths, with their lengths; without a path or a label."""
        return {arm: int(arm[2:]) for arm in self.arms if _FIXED.fullmatch(arm)}

    @property
    def controls(self) -> tuple[str, ...]:
        """The arms without speculation; the first is the control of every ratio."""
        return tuple(arm for arm in self.arms if arm.partition("#")[0] == "none")

    @property
    def policies(self) -> tuple[str, ...]:
        """All arms that choose the length at run time."""
        return tuple(
            arm for arm in self.arms if arm not in self.controls and not arm.startswith("K=")
        )

    def trace_rate(self, rates: Floats) -> Floats:
        """Tokens per second over the whole trace, (num_repeats,), from rates of the phases."""
        total: Floats = self.work.sum(axis=1) / (self.work / rates).sum(axis=1)
        return total


def read_measured(document: Mapping[str, Any]) -> Measured:
    """The complete repeats of a result document; ValueError when there is none."""
    plan, runs = document["plan"], document["runs"]
    arms = tuple(plan["arms"])
    phases = tuple(dict.fromkeys(plan["phases"]))
    whole = len(arms) * len(plan["phases"])
    counts = [run["repeat"] for run in runs]
    repeats = [repeat for repeat in sorted(set(counts)) if counts.count(repeat) == whole]
    if not repeats:
        raise ValueError("no repeat is complete: every repeat lacks the run of some arm")
    shape = (len(repeats), len(phases))
    tokens = {arm: np.zeros(shape) for arm in arms}
    seconds = {arm: np.zeros(shape) for arm in arms}
    turns: dict[tuple[str, int], list[tuple[int, Steps]]] = {}
    errors = dict.fromkeys(arms, 0)
    for run in runs:
        if run["repeat"] not in repeats:
            continue
        row, column, arm = repeats.index(run["repeat"]), phases.index(run["phase"]), run["arm"]
        tokens[arm][row, column] += run["tokens"]
        seconds[arm][row, column] += run["seconds"]
        turns.setdefault((arm, column), []).append((row, _steps(run)))
        errors[arm] = max(errors[arm], run["policy_errors"])
    return Measured(
        arms=arms,
        phases=phases,
        rates={arm: tokens[arm] / seconds[arm] for arm in arms},
        work=np.mean([tokens[arm] for arm in arms], axis=0),
        turns={key: tuple(found) for key, found in turns.items()},
        policy_errors=errors,
    )


def _steps(run: Mapping[str, Any]) -> Steps:
    columns, first, reasons = run["steps"], run["lead_in"], run["reasons"]
    planned = np.asarray(columns["planned"][first:], dtype=np.int64)
    return Steps(
        planned=planned,
        seconds=np.asarray(columns["ms"][first:], dtype=np.float64) / 1e3,
        exploring=np.asarray(columns["exploring"][first:], dtype=np.int64),
        slowed=np.asarray(columns.get("slowed", [0] * len(columns["ms"]))[first:], dtype=np.int64),
        scheduled_tokens=np.asarray(columns["scheduled"][first:], dtype=np.int64),
        prompt_tokens=np.asarray(columns["prompt_tokens"][first:], dtype=np.int64),
        reasons=tuple(reasons[index] for index in columns["reason"][first:]),
    )
