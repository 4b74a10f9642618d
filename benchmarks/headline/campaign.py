"""Run every slice of every repeat with all arms in turn, and save after each repeat."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from benchmarks.headline.arms import Arm
from benchmarks.headline.cells import SATURATED, Cell, toy
from benchmarks.headline.turns import Slice, plan_slices

_WARM_UP_NUMBER = 1_000_000
"""Number of the first slice of the warm-up, above those of any run."""
_WARM_UP_PER_S = 100.0
"""Offered rate in the warm-up: its few requests come at once."""


class ArmRunner(Protocol):
    """Answers slices."""

    def run(self, part: Slice, offered_per_s: float) -> dict[str, Any]:
        """Block until every answer has ended; the record of the turn.

        Failed requests do not raise. `offered_per_s` is the rate of cells without a concurrency.
        """
        ...


def warm_up(arms: Sequence[Arm], cells: Sequence[Cell], runners: Mapping[str, ArmRunner]) -> None:
    """Run every cell once on every arm, with few requests, unrecorded.

    Raises RuntimeError if an arm fails a request.
    """
    for number, cell in enumerate(map(toy, cells), start=_WARM_UP_NUMBER):
        for arm in arms:
            part = Slice(-1, cell, number, tuple(arms))
            turn = runners[arm.name].run(part, _WARM_UP_PER_S)
            if turn["num_errors"]:
                raise RuntimeError(f"{arm.name} failed in the warm-up: {turn['error']}")


def measure_offered_rate(cells: Sequence[Cell], plain: ArmRunner, offered_fraction: float) -> float:
    """Requests per second: `offered_fraction` of what plain vLLM answers in the saturated cell."""
    cell = next(one for one in cells if one.name == SATURATED)
    turn = plain.run(Slice(-1, cell, _WARM_UP_NUMBER + len(cells), ()), _WARM_UP_PER_S)
    return float(offered_fraction * len(turn["requests"]) / turn["seconds"])


def run_campaign(
    plan: Mapping[str, Any],
    arms: Sequence[Arm],
    cells: Sequence[Cell],
    runners: Mapping[str, ArmRunner],
    offered_per_s: float,
    runs: list[dict[str, Any]],
    save: Callable[[], None],
    *,
    model: str,
) -> None:
    """Append one entry to `runs` for every arm in every slice of this model that `runs` lacks.

    An unfinished repeat is dropped and run again: its arms would not have shared their moments.
    """
    for repeat in range(plan["repeats"]):
        slices = plan_slices(arms, cells, repeat, plan["slices"], plan["seed"])
        mine = [run for run in runs if (run["model"], run["repeat"]) == (model, repeat)]
        if len(mine) == len(slices) * len(arms):
            continue
        runs[:] = [run for run in runs if (run["model"], run["repeat"]) != (model, repeat)]
        for place, part in enumerate(slices):
            began_s = time.monotonic()
            turns = {arm.name: runners[arm.name].run(part, offered_per_s) for arm in part.order}
            runs.extend(
                {
                    "model": model,
                    "repeat": repeat,
                    "cell": part.cell.name,
                    "slice": part.number,
                    "arm": name,
                    "position": position,
                    **turn,
                }
                for position, (name, turn) in enumerate(turns.items())
            )
            title = f"{model}, repeat {repeat}, {place + 1}/{len(slices)} {part.cell.name}"
            print(f"{title} ({time.monotonic() - began_s:.0f} s): {_rates(arms, turns)}")
        save()


def _rates(arms: Sequence[Arm], turns: Mapping[str, Mapping[str, Any]]) -> str:
    """Output tokens per second of every arm, and what failed."""
    found = []
    for arm in arms:
        turn = turns[arm.name]
        tokens = sum(request[1] for request in turn["requests"])
        errors = f" ({turn['num_errors']} ERRORS: {turn['error']})" if turn["num_errors"] else ""
        found.append(f"{arm.name} {tokens / turn['seconds']:.0f}{errors}")
    return "  ".join(found)
