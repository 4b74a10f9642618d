"""The governor in the simulator: every profile and drafter, two traces, several seeds.

Compares as `python -m paceline.policy_simulator` does, spread over processes, and holds the result against
the targets. Writes one JSON file and a report in markdown.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.governor.claims import (
    MAX_EXPLORATION_LOSS,
    MAX_STEPS_TO_ADAPT,
    OF_BEST_SINGLE,
    OF_FLOOR,
    OF_ORACLE,
    OF_TABLE,
)
from benchmarks.governor.markdown import table
from benchmarks.governor.rows import render_results
from paceline.bench.results.environment import describe_environment
from paceline.bench.results.files import write_text
from paceline.policy_simulator.evaluation.arms import GOVERNED_ARMS
from paceline.policy_simulator.evaluation.compare import ArmResult, Comparison, compare_arms
from paceline.policy_simulator.machines.machine import Disturbance
from paceline.policy_simulator.machines.profiles import load_profile, profile_names
from paceline.policy_simulator.traffic.traces import TRACE_NAMES, build_trace

NOISE_FRACTION = 0.03
"""Sigma of the step times, as the simulator's command has it."""
DRAFTERS = ("draft", "told", "ngram")
"""`told`: the draft model, in an engine that tells at length 0 whether its first token came; where
it rests at length 0 there is nothing to tell, and no such cell."""

_EXAMPLES = """examples:
  python benchmarks/governor/simulate.py --results benchmarks/results
  python benchmarks/governor/simulate.py --profiles cpu-twin --traces shifting --seeds 1
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """One comparison to make."""

    profile: str
    drafter: str
    trace: str
    seed: int


def simulate(cell: Cell) -> dict[str, Any]:
    """Every arm on one trace; the cell's names and the whole comparison."""
    profile = load_profile(cell.profile)
    if cell.drafter == "ngram":
        profile = replace(profile, machine=profile.machine.with_ngram())
    if cell.drafter == "told":
        profile = replace(profile, machine=profile.machine.telling_first_tokens())
    comparison = compare_arms(
        profile.machine,
        build_trace(cell.trace, profile),
        seed=cell.seed,
        disturbance=Disturbance(noise_fraction=NOISE_FRACTION),
    )
    ratios = {arm: ratios_of(comparison, arm) for arm in GOVERNED_ARMS}
    return {**asdict(cell), "ratios": ratios, "comparison": asdict(comparison)}


def ratios_of(comparison: Comparison, name: str) -> dict[str, float | int | str | None]:
    """What the targets are about, for one governed arm; None for never adapted.

    The best single length and the table are compared by tokens over the trace and by phase, as the
    oracle is.
    """
    arm = comparison.arm(name)
    single = max(
        (a for a in comparison.arms if a.summary.arm.startswith("K=")),
        key=lambda a: a.fraction_of_oracle,
    )
    single_by_phase = comparison.arm(comparison.best_held_arm)
    tuned = comparison.arm("table")
    return {
        "of_oracle": arm.fraction_of_oracle,
        "of_oracle_by_phase": arm.mean_phase_fraction,
        "of_best_single": arm.fraction_of_oracle / single.fraction_of_oracle,
        "of_best_single_by_phase": arm.mean_phase_fraction / single_by_phase.mean_phase_fraction,
        "of_table": arm.fraction_of_oracle / tuned.fraction_of_oracle,
        "of_table_by_phase": arm.mean_phase_fraction / tuned.mean_phase_fraction,
        "of_floor_in_worst_phase": arm.worst_phase_fraction,
        "worst_phase": arm.worst_phase,
        "slowest_to_adapt_steps": arm.slowest_to_adapt,
        "exploring_loss_fraction": _exploring_loss(arm),
    }


def _exploring_loss(arm: ArmResult) -> float:
    """Over the whole trace, weighted by the phases' time."""
    phases = arm.summary.phases
    lost_s = sum(phase.exploring_loss_fraction * phase.seconds for phase in phases)
    return lost_s / sum(phase.seconds for phase in phases)


def render_report(document: Mapping[str, Any]) -> str:
    """Targets beside what was found: the mean over seeds, and the lowest seed for ratios."""
    environment = document["environment"]
    parts = [
        "# The governor in the simulator",
        f"Seeds {document['seeds']}, step times with {NOISE_FRACTION:.0%} noise; Paceline "
        f"{environment['paceline']}, {environment['date_utc']}. Ratios are means over the seeds "
        "with the lowest in brackets; steps and exploration loss are the highest.",
        f"    {environment['command']}",
    ]
    for arm in GOVERNED_ARMS:
        parts += [f"## {arm}", table(_HEADS, _rows(document["cells"], arm))]
    return "\n\n".join(parts) + "\n"


_RATIO_HEADS = (
    ("of_oracle", f"of oracle (≥ {OF_ORACLE:.0%})"),
    ("of_oracle_by_phase", f"by phase (≥ {OF_ORACLE:.0%})"),
    ("of_best_single", f"of best K (≥ {OF_BEST_SINGLE:.0%})"),
    ("of_best_single_by_phase", f"by phase (≥ {OF_BEST_SINGLE:.0%})"),
    ("of_table", f"of table (≥ {OF_TABLE:.0%})"),
    ("of_table_by_phase", f"by phase (≥ {OF_TABLE:.0%})"),
    ("of_floor_in_worst_phase", f"worst phase (≥ {OF_FLOOR:.0%})"),
)
_HEADS = (
    "profile, drafter, trace",
    *(head for _, head in _RATIO_HEADS),
    "which",
    f"steps to adapt (≤ {MAX_STEPS_TO_ADAPT})",
    f"exploration loss (≤ {MAX_EXPLORATION_LOSS:.1%})",
)


def _rows(cells: Sequence[Mapping[str, Any]], arm: str) -> Iterable[Sequence[str]]:
    def place(cell: Mapping[str, Any]) -> tuple[str, str, str]:
        return cell["profile"], cell["drafter"], cell["trace"]

    for where, group in itertools.groupby(sorted(cells, key=place), key=place):
        found = [cell["ratios"][arm] for cell in group]
        worst = min(found, key=lambda ratios: ratios["of_floor_in_worst_phase"])
        steps = [ratios["slowest_to_adapt_steps"] for ratios in found]
        yield (
            ", ".join(where),
            *(_ratio_cell([ratios[key] for ratios in found]) for key, _ in _RATIO_HEADS),
            worst["worst_phase"],
            "never" if None in steps else str(max(steps)),
            f"{max(ratios['exploring_loss_fraction'] for ratios in found):.2%}",
        )


def _ratio_cell(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.1%} ({min(values):.1%})"


def main() -> None:
    arguments = _parse()
    cells = [
        Cell(profile, drafter, trace, seed)
        for profile, drafter, trace, seed in itertools.product(
            arguments.profiles, arguments.drafters, arguments.traces, range(arguments.seeds)
        )
        if drafter != "told" or load_profile(profile).machine.drafter == "keeps_up"
    ]
    environment = asdict(describe_environment(sys.argv))
    found = []
    with ProcessPoolExecutor(arguments.processes) as pool:
        for cell, result in zip(cells, pool.map(simulate, cells), strict=True):
            found.append(result)
            goodput = result["ratios"]["goodput"]["of_oracle"]
            print(
                f"{cell.profile} {cell.drafter} {cell.trace} {cell.seed}: {goodput:.1%}", flush=True
            )
    document = {
        "schema_version": 1,
        "kind": "governor in the simulator",
        "environment": environment,
        "noise_fraction": NOISE_FRACTION,
        "seeds": arguments.seeds,
        "cells": found,
    }
    today = time.strftime("%Y-%m-%d", time.gmtime())
    target = arguments.results / f"governor-simulator-{today}.json"
    write_text(target, render_results(rounded(document), ("cells",)))
    write_text(target.with_suffix(".md"), render_report(document))
    print(f"written: {target} and {target.with_suffix('.md').name}")


def rounded(node: Any) -> Any:
    """The same with six significant digits: the truth is known no better."""
    if isinstance(node, float):
        return float(f"{node:.6g}")
    if isinstance(node, Mapping):
        return {key: rounded(value) for key, value in node.items()}
    return [rounded(value) for value in node] if isinstance(node, (list, tuple)) else node


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = profile_names()
    add = parser.add_argument
    add("--profiles", nargs="+", choices=names, default=names, metavar="NAME")
    add("--drafters", nargs="+", choices=DRAFTERS, default=list(DRAFTERS))
    add("--traces", nargs="+", choices=TRACE_NAMES, default=["shifting", "mixed"])
    add("--seeds", type=int, default=3, metavar="N", help="seeds 0 to N - 1")
    add("--processes", type=int, default=2, metavar="N")
    add("--results", type=Path, default=Path("benchmarks/results"), metavar="FOLDER")
    arguments = parser.parse_args()
    if not arguments.results.is_dir():
        parser.error(f"--results is {arguments.results}, which is no folder")
    if arguments.seeds < 1:
        parser.error(f"--seeds is {arguments.seeds}; it must be at least 1")
    return arguments


if __name__ == "__main__":
    main()
