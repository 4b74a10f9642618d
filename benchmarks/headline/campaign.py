"""Run every slice of every repeat with all arms in turn, and save after each repeat."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.headline.arms import Arm
from benchmarks.headline.bandwidth import measure_bandwidth
from benchmarks.headline.cells import Cell, toy
from benchmarks.headline.turns import Slice, plan_slices, runs_cell

_WARM_UP_REPEAT = 1_000_000
"""Number of the warm-up, above those of any repeat."""


RunSlice = Callable[[Slice], dict[str, Any]]
"""Answers a slice: blocks until every answer has ended, and returns the record of the turn. Failed
requests do not raise."""


def warm_up(arms: Sequence[Arm], cells: Sequence[Cell], runners: Mapping[str, RunSlice]) -> None:
    """Run every cell once on its arms, with few requests and short answers, unrecorded.

    Raises RuntimeError if an arm fails a request.
    """
    for cell in map(toy, cells):
        for arm in arms:
            if runs_cell(arm, cell):
                turn = runners[arm.name](Slice(_WARM_UP_REPEAT, cell, tuple(arms)))
                if turn["num_errors"]:
                    raise RuntimeError(f"{arm.name} failed in the warm-up: {turn['error']}")


def run_campaign(
    document: dict[str, Any],
    arms: Sequence[Arm],
    cells: Sequence[Cell],
    runners: Mapping[str, RunSlice],
    save: Callable[[], None],
) -> None:
    """Append an entry to `runs` of the document for every arm in every slice that they lack.

    The bandwidth of the memory is measured at the beginning of each repeat. An unfinished repeat is
    dropped and run again: its arms would not have shared their moments.
    """
    plan, runs = document["plan"], document["runs"]
    for repeat in range(plan["repeats"]):
        slices = plan_slices(arms, cells, repeat, plan["seed"])
        if sum(run["repeat"] == repeat for run in runs) == sum(len(one.order) for one in slices):
            continue
        runs[:] = [run for run in runs if run["repeat"] != repeat]
        document["bandwidth_bytes_per_s"][str(repeat)] = measure_bandwidth()
        for place, part in enumerate(slices):
            began_s = time.monotonic()
            turns = {arm.name: runners[arm.name](part) for arm in part.order}
            runs.extend(
                {
                    "repeat": repeat,
                    "cell": part.cell.name,
                    "arm": name,
                    **turn,
                }
                for name, turn in turns.items()
            )
            title = f"repeat {repeat}, {place + 1}/{len(slices)} {part.cell.name}"
            print(f"{title} ({time.monotonic() - began_s:.0f} s): {_rates(turns)}", flush=True)
        save()


def _rates(turns: Mapping[str, Mapping[str, Any]]) -> str:
    """Output tokens per second of every arm, and what failed."""
    found = []
    for name, turn in sorted(turns.items()):
        tokens = sum(request[1] for request in turn["requests"])
        errors = f" ({turn['num_errors']} ERRORS: {turn['error']})" if turn["num_errors"] else ""
        found.append(f"{name} {tokens / turn['seconds']:.0f}{errors}")
    return "  ".join(found)
