"""The reference results of the published shifting-acceptance traces: every policy, with the oracle.

Each trace runs by its scripted acceptance in the policy simulator: no speculation, every fixed
length, the table tuned on them, and every policy, on the same requests. All machines here are
simulated profiles, also those named after GPUs. The result is determined by the seeds. The GPU
profiles get eight times the traces' load, so that the loads that change the best length occur.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.governor.simulate import NOISE_FRACTION, rounded
from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.foundation.results.environment import describe_environment
from paceline.foundation.shifting_trace import find_trace, published_names
from paceline.testing.policy_simulator.evaluation.compare import ArmResult, compare_arms
from paceline.testing.policy_simulator.evaluation.shifting_traces import phases_of
from paceline.testing.policy_simulator.machines.machine import Disturbance
from paceline.testing.policy_simulator.machines.profiles import load_profile

LOAD_SCALES = {"cpu-twin": 1.0, "7b-h200": 8.0, "72b-tp8-h100": 8.0}
"""The profiles, and the factor on the load of the traces."""
POLICIES = ("threshold", "latency", "goodput")
_EXAMPLES = """examples:
  python benchmarks/governor/reference_traces.py --results benchmarks/results
  python benchmarks/governor/reference_traces.py --profiles cpu-twin --seeds 1 --time-scale 0.1
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """One comparison to make."""

    trace: str
    profile: str
    seed: int
    time_scale: float


def run_cell(cell: Cell) -> dict[str, Any]:
    """Run every arm on the trace."""
    trace, load_scale = find_trace(cell.trace), LOAD_SCALES[cell.profile]
    comparison = compare_arms(
        load_profile(cell.profile).machine,
        phases_of(trace.scaled(load=load_scale, time=cell.time_scale)),
        seed=cell.seed,
        disturbance=Disturbance(noise_fraction=NOISE_FRACTION),
        governed=POLICIES,
    )
    return {
        **asdict(cell),
        "sha256": trace.sha256,
        "load_scale": load_scale,
        "best_single": comparison.best_single.summary.arm,
        "table": comparison.table,
        "arms": {arm.summary.arm: figures_of(arm) for arm in comparison.arms},
    }


def figures_of(arm: ArmResult) -> dict[str, Any]:
    """What the reference says about one arm."""
    return {
        "tokens_per_s": arm.summary.tokens_per_s,
        "fraction_of_oracle": arm.fraction_of_oracle,
        "mean_phase_fraction": arm.mean_phase_fraction,
        "worst_phase": arm.worst_phase,
        "worst_phase_fraction": arm.worst_phase_fraction,
        "slowest_to_adapt_steps": arm.slowest_to_adapt,
        "phases": {phase.name: phase.tokens_per_s for phase in arm.summary.phases},
    }


def main() -> None:
    arguments = _parse()
    cells = [
        Cell(trace, profile, seed, arguments.time_scale)
        for trace, profile, seed in itertools.product(
            arguments.traces, arguments.profiles, range(arguments.seeds)
        )
    ]
    environment = asdict(describe_environment(sys.argv))
    today = time.strftime("%Y-%m-%d", time.gmtime())
    file = ResultFile(
        arguments.results / f"reference-traces-simulator-{today}.json",
        allow_dirty=arguments.allow_dirty,
    )
    found: list[Mapping[str, Any]] = []
    with ProcessPoolExecutor(arguments.processes) as pool:
        for cell, result in zip(cells, pool.map(run_cell, cells), strict=True):
            found.append(result)
            share = result["arms"]["goodput"]["fraction_of_oracle"]
            print(f"{cell.trace} {cell.profile} {cell.seed}: goodput {share:.1%}", flush=True)
    document = {
        "schema_version": 1,
        "kind": "reference results of the shifting-acceptance traces, simulated",
        "environment": environment,
        "noise_fraction": NOISE_FRACTION,
        "seeds": arguments.seeds,
        "cells": found,
    }
    file.write(rounded(document))
    print(f"written: {file.path}")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    names = list(published_names())
    add("--traces", nargs="+", choices=names, default=names)
    add("--profiles", nargs="+", choices=list(LOAD_SCALES), default=list(LOAD_SCALES))
    add("--seeds", type=int, default=3, metavar="N", help="seeds 0 to N - 1")
    add("--time-scale", type=float, default=1.0, help="factor on the length of every phase")
    add("--processes", type=int, default=1, metavar="N")
    add("--results", type=Path, default=Path("benchmarks/results"), metavar="FOLDER")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    if not arguments.results.is_dir():
        parser.error(f"--results is {arguments.results}; it must be an existing folder")
    if arguments.seeds < 1 or not 0 < arguments.time_scale < float("inf"):
        parser.error(
            f"--seeds is {arguments.seeds} and --time-scale {arguments.time_scale}; "
            "both must be above 0"
        )
    return arguments


if __name__ == "__main__":
    main()
