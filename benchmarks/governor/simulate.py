"""Simulate the governor with every profile and drafter, on two traces, with several seeds.

The comparison is that of `python -m paceline.testing.policy_simulator`, spread over processes. The
script compares the result with the targets and writes one compressed JSON file and a report in
markdown. All machines here are simulated profiles, also those named after GPUs.
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

from benchmarks.governor.markdown_table import table
from benchmarks.results_file import ResultFile, add_allow_dirty, sibling
from paceline.foundation.results.environment import describe_environment
from paceline.foundation.results.files import write_text
from paceline.testing.policy_simulator.evaluation.arms import GOVERNED_ARMS
from paceline.testing.policy_simulator.evaluation.compare import ArmResult, Comparison, compare_arms
from paceline.testing.policy_simulator.evaluation.traces import TRACE_NAMES, build_trace
from paceline.testing.policy_simulator.machines.machine import Disturbance
from paceline.testing.policy_simulator.machines.profiles import load_profile, profile_names

NOISE_FRACTION = 0.03
"""Sigma of the step times; the default of the simulator's command."""
DRAFTERS = ("draft", "ngram")

# The targets of the governor.
OF_ORACLE = 0.97
OF_BEST_SINGLE = 1.15
OF_TABLE = 1.05
OF_FLOOR = 0.98
MAX_STEPS_TO_ADAPT = 50
MAX_EXPLORATION_LOSS = 0.005

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
    prefill_chunk: int | None = None


def simulate(cell: Cell) -> dict[str, Any]:
    """Run every arm on one trace: the names of the cell and the whole comparison."""
    profile = load_profile(cell.profile)
    if cell.drafter == "ngram":
        profile = replace(profile, machine=profile.machine.with_ngram())
    if cell.prefill_chunk is not None:
        machine = profile.machine.with_prefill_chunks(cell.prefill_chunk)
        profile = replace(profile, machine=machine)
    comparison = compare_arms(
        profile.machine,
        build_trace(cell.trace, profile),
        seed=cell.seed,
        disturbance=Disturbance(noise_fraction=NOISE_FRACTION),
    )
    ratios = {arm: ratios_of(comparison, arm) for arm in GOVERNED_ARMS}
    return {**asdict(cell), "ratios": ratios, "comparison": asdict(comparison)}


def ratios_of(comparison: Comparison, name: str) -> dict[str, float | int | str | None]:
    """The figures that have a target, for one governed arm; None for never adapted.

    Like the oracle, the best single length and the table are compared by tokens over the trace and
    by phase.
    """
    arm = comparison.arm(name)
    single = comparison.best_single
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
    """The loss over the whole trace: the phases weighted by their time."""
    phases = arm.summary.phases
    lost_s = sum(phase.exploring_loss_fraction * phase.seconds for phase in phases)
    return lost_s / sum(phase.seconds for phase in phases)


def render_report(document: Mapping[str, Any]) -> str:
    """The targets and the figures: the mean over seeds, and for ratios also the lowest seed."""
    environment = document["environment"]
    parts = [
        "# The governor in the policy simulator",
        f"Seeds {document['seeds']}, step times with {NOISE_FRACTION:.0%} noise; Paceline "
        f"{environment['paceline']}, commit {environment.get('commit', 'not recorded')}, "
        f"{environment['date_utc']}. Ratios: mean (lowest to highest) over n = "
        f"{document['seeds']} seeds; steps and exploration loss are the highest of all seeds. "
        "`best K` is the fixed length with the most tokens over the trace, for each seed.",
        f"    {environment['command']}",
    ]
    for arm in GOVERNED_ARMS:
        rows = table(_HEADS, _rows(document["cells"], arm))
        parts += [f"## {arm}", rows, _lost_to_single(document["cells"], arm)]
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
    "best K",
    *(head for _, head in _RATIO_HEADS),
    "which",
    f"steps to adapt (≤ {MAX_STEPS_TO_ADAPT})",
    f"exploration loss (≤ {MAX_EXPLORATION_LOSS:.1%})",
)


def _rows(cells: Sequence[Mapping[str, Any]], arm: str) -> Iterable[Sequence[str]]:
    for where, group in _by_cell(cells):
        found = [cell["ratios"][arm] for cell in group]
        worst = min(found, key=lambda ratios: ratios["of_floor_in_worst_phase"])
        steps = [ratios["slowest_to_adapt_steps"] for ratios in found]
        yield (
            where,
            ", ".join(best_single(cell).removeprefix("K=") for cell in group),
            *(_ratio_cell([ratios[key] for ratios in found]) for key, _ in _RATIO_HEADS),
            worst["worst_phase"],
            "never" if None in steps else str(max(steps)),
            f"{max(ratios['exploring_loss_fraction'] for ratios in found):.2%}",
        )


def _lost_to_single(cells: Sequence[Mapping[str, Any]], arm: str) -> str:
    """Where the arm yields fewer tokens than the best single length, in the mean of the seeds."""
    means = {
        where: statistics.mean(cell["ratios"][arm]["of_best_single"] for cell in group)
        for where, group in _by_cell(cells)
    }
    lost = [f"{where} ({mean:.1%})" for where, mean in means.items() if mean < 1]
    return (
        f"In {len(lost)} of {len(means)} cells {arm} loses to the best single length"
        + "".join([": ", "; ".join(lost)] if lost else [])
        + "."
    )


def best_single(cell: Mapping[str, Any]) -> str:
    """The fixed length with the most tokens over the trace."""
    fractions = {
        arm["summary"]["arm"]: arm["fraction_of_oracle"] for arm in cell["comparison"]["arms"]
    }
    return max((name for name in fractions if name.startswith("K=")), key=fractions.__getitem__)


def _by_cell(
    cells: Sequence[Mapping[str, Any]],
) -> Iterable[tuple[str, list[Mapping[str, Any]]]]:
    """Profile, drafter and trace, with the results of every seed."""

    def group_key(cell: Mapping[str, Any]) -> tuple[str, str, str]:
        return cell["profile"], cell["drafter"], cell["trace"]

    for key, group in itertools.groupby(sorted(cells, key=group_key), key=group_key):
        yield ", ".join(key), list(group)


def _ratio_cell(values: Sequence[float]) -> str:
    return f"{statistics.mean(values):.1%} ({min(values):.1%} to {max(values):.1%})"


def main() -> None:
    arguments = _parse()
    cells = [
        Cell(profile, drafter, trace, seed, arguments.prefill_chunk)
        for profile, drafter, trace, seed in itertools.product(
            arguments.profiles, arguments.drafters, arguments.traces, range(arguments.seeds)
        )
    ]
    environment = asdict(describe_environment(sys.argv))
    today = time.strftime("%Y-%m-%d", time.gmtime())
    file = ResultFile(
        arguments.results / f"governor-simulator-{today}.json.gz", allow_dirty=arguments.allow_dirty
    )
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
    file.write(rounded(document))
    report = sibling(file.path, ".md")
    write_text(report, render_report(document))
    print(f"written: {file.path} and {report.name}")


def rounded(node: Any) -> Any:
    """The same value with six significant digits; the simulator is no more exact."""
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
    add("--prefill-chunk", type=int, metavar="TOKENS", help="most tokens of one prompt in a step")
    add("--processes", type=int, default=2, metavar="N")
    add("--results", type=Path, default=Path("benchmarks/results"), metavar="FOLDER")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    if not arguments.results.is_dir():
        parser.error(f"--results is {arguments.results}; it must be an existing folder")
    if arguments.prefill_chunk is not None and arguments.prefill_chunk < 1:
        parser.error(f"--prefill-chunk is {arguments.prefill_chunk}; it must be at least 1")
    if arguments.seeds < 1:
        parser.error(f"--seeds is {arguments.seeds}; it must be at least 1")
    return arguments


if __name__ == "__main__":
    main()
