"""`cost-table`: steps whose times do not have the proportions of the table measured at the start.

The governor follows a machine that is faster or slower as a whole, so that is no finding. What
chooses a draft length is the proportion between steps of different lengths. An error of 20 % in a
table costs the governor at most 1.5 % of its tokens/s, so only clearly larger ones are reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paceline.operations.doctor.checks.check import Check
from paceline.operations.doctor.readings.observation import Observation
from paceline.operations.doctor.values import (
    CannotJudge,
    Evidence,
    Finding,
    Lacking,
    Severity,
    unknown_cost,
)

_MIN_STEPS = 100
"""Of a length, while it was observed: earlier ones may be of a time when the machine was slower.
With fewer, other work may have slowed just these. Chosen empirically."""
_MAX_RATIO = 1.5
"""Between the lengths that fit worst. Chosen empirically."""


def _judge(observation: Observation) -> Sequence[Finding]:
    before = observation.first.governors
    compared = {
        name: found
        for name, state in observation.last.governors.items()
        if (found := _ratios(before.get(name, {}), state))
    }
    if not any(state.get("table_step_seconds") for state in observation.last.governors.values()):
        raise CannotJudge("no governor has a table of step times that was measured at its start")
    if not any(len(found) > 1 for found in compared.values()):
        raise CannotJudge(
            f"no governor did {_MIN_STEPS} steps at each of two draft lengths", Lacking.REQUESTS
        )
    return [
        _finding(name, found)
        for name, found in compared.items()
        if max(found.values()) > _MAX_RATIO * min(found.values())
    ]


def _ratios(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[int, float]:
    """Measured time over that by the table, by draft length; of lengths with enough steps."""
    steps, measured, table = (
        _growth(before.get(key), after.get(key))
        for key in ("length_steps", "measured_step_seconds", "table_step_seconds")
    )
    return {
        int(length): measured[length] / table_s
        for length, table_s in table.items()
        if table_s > 0 and measured.get(length, 0) > 0 and steps.get(length, 0) >= _MIN_STEPS
    }


def _growth(before: object, after: object) -> dict[str, float]:
    earlier = before if isinstance(before, Mapping) else {}
    later = after if isinstance(after, Mapping) else {}
    return {name: value - earlier.get(name, 0) for name, value in later.items()}


def _finding(name: str, ratios: Mapping[int, float]) -> Finding:
    best, worst = (choose(ratios, key=ratios.__getitem__) for choose in (min, max))
    return Finding(
        id="cost-table-misfit",
        severity=Severity.WARNING,
        summary=(
            f"The table of costs of {name} does not fit: steps at draft length {worst} take "
            f"{ratios[worst] / ratios[best]:.1f} times as long as at {best}, compared with it."
        ),
        evidence=tuple(
            Evidence(f"time at length {length} over that by the table", round(ratio, 2))
            for length, ratio in sorted(ratios.items())
        ),
        cost=unknown_cost("the lengths that another table would lead to are not known"),
        cause="The table was measured under other conditions: other work, or a limit of power.",
        remedy="Restart the engine while nothing else runs: it checks the table and measures anew",
        settings=("costs_folder",),
        subject=name,
    )


CHECK = Check(
    "cost-table", "a table of step costs that does not fit", ("cost-table-misfit",), _judge
)
