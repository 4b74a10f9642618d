"""Measure the slowest answers of the policy `latency` in the simulator.

Steady phases, every load with every kind of text (trace `texts`), each on its own engine and
without its beginning. Every fixed draft length and the policies serve the same requests. Figures of
an arm:

- tpot_p99: p99 over the answers of the time from the first to the last token, divided by the number
  of tokens after the first
- gap_p99: p99 over all gaps between two tokens of an answer; 0 between tokens of the same chunk
- tokens_per_s

The script prints how much slower each policy's slowest answers are than those of the best fixed
length.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.governor.markdown_table import table
from benchmarks.governor.simulate import DRAFTERS, NOISE_FRACTION, rounded
from benchmarks.results_file import ResultFile, add_allow_dirty, sibling
from paceline.foundation.results.environment import describe_environment
from paceline.foundation.results.files import write_text
from paceline.testing.policy_simulator.engine.step_log import StepLog
from paceline.testing.policy_simulator.evaluation.arms import (
    HeldLength,
    governed_policy,
    held_name,
    run_trace,
)
from paceline.testing.policy_simulator.evaluation.traces import build_trace
from paceline.testing.policy_simulator.machines.machine import Disturbance
from paceline.testing.policy_simulator.machines.profiles import load_profile, profile_names
from paceline.testing.policy_simulator.traffic.phases import ClosedLoop

POLICIES = ("goodput", "latency")
_WARM_UP_STEPS = 400
_ANSWERS = 300
"""Approximate number of answers in a phase; a P99 of fewer is just their slowest."""
_STEPS_PER_ANSWER = 112
"""Mean answers of 224 tokens at 2 a step."""
_MIN_STEPS = 1200


@dataclass(frozen=True, slots=True)
class Cell:
    """One phase in which all arms are compared."""

    profile: str
    drafter: str
    phase_number: int
    seed: int


def simulate(cell: Cell) -> dict[str, Any]:
    """Run every arm in one phase."""
    profile = load_profile(cell.profile)
    if cell.drafter == "ngram":
        profile = replace(profile, machine=profile.machine.with_ngram())
    machine = profile.machine
    phase = build_trace("texts", profile)[cell.phase_number]
    assert isinstance(phase.load, ClosedLoop)
    num_steps = max(_ANSWERS * _STEPS_PER_ANSWER // phase.load.first, _MIN_STEPS)
    warm_up = replace(phase, duration_s=None, num_steps=_WARM_UP_STEPS)
    measured = replace(phase, duration_s=None, num_steps=num_steps)
    held = machine.lengths
    policies = {held_name(length): HeldLength(length) for length in held} | {
        name: governed_policy(name, machine, []) for name in POLICIES
    }
    disturbance = Disturbance(noise_fraction=NOISE_FRACTION)
    arms = {}
    for name, policy in policies.items():
        trace = (warm_up, measured)
        _, log = run_trace(machine, policy, trace, seed=cell.seed, disturbance=disturbance)
        arms[name] = describe(log)
    return {
        "profile": cell.profile,
        "drafter": cell.drafter,
        "phase": phase.name,
        "seed": cell.seed,
        "arms": arms,
    }


def describe(log: StepLog) -> dict[str, float | int]:
    """The figures of one arm; times in milliseconds."""
    num_in_chunks = int(log.output_tokens.sum()) - len(log.first_token_s) - len(log.inter_chunk_s)
    gaps = np.concatenate([np.zeros(num_in_chunks), log.inter_chunk_s])
    return {
        "tpot_p99_ms": 1e3 * float(np.percentile(log.time_per_output_token_s, 99)),
        "tpot_p50_ms": 1e3 * float(np.percentile(log.time_per_output_token_s, 50)),
        "gap_p99_ms": 1e3 * float(np.percentile(gaps, 99)),
        "tokens_per_s": log.tokens_per_s,
        "mean_draft_length": float(log.draft_length.mean()),
        "num_answers": len(log.time_per_output_token_s),
    }


def best_held(arms: Mapping[str, Any], figure: str) -> str:
    """The fixed length with the lowest value of this time."""
    return min((name for name in arms if name.startswith("K=")), key=lambda n: arms[n][figure])


def ratios(cell: Mapping[str, Any]) -> dict[str, float]:
    """P99 time per output token of each policy, divided by that of the best fixed length."""
    arms = cell["arms"]
    best = arms[best_held(arms, "tpot_p99_ms")]["tpot_p99_ms"]
    return {name: arms[name]["tpot_p99_ms"] / best for name in POLICIES}


def render_report(cells: Sequence[Mapping[str, Any]]) -> str:
    """A table with a row per phase, and figures over all phases."""
    rows = []
    for cell in cells:
        arms = cell["arms"]
        rows.append(
            (
                f"{cell['profile']}, {cell['drafter']}, {cell['phase']}",
                max((n for n in arms if n.startswith("K=")), key=lambda n: arms[n]["tokens_per_s"]),
                best_held(arms, "gap_p99_ms"),
                best_held(arms, "tpot_p99_ms"),
                *(f"{ratio:.2f}" for ratio in ratios(cell).values()),
                f"{arms['latency']['tokens_per_s'] / arms['goodput']['tokens_per_s']:.2f}",
            )
        )
    heads = (
        "profile, drafter, phase",
        "best K by tokens/s",
        "by P99 gap",
        "by P99 TPOT",
        *(f"{name}: P99 TPOT / best K's" for name in POLICIES),
        "latency: tokens/s / goodput's",
    )
    lines = [table(heads, rows)]
    for name in POLICIES:
        found = [ratios(cell)[name] for cell in cells]
        near = sum(ratio <= 1.05 for ratio in found)
        lines.append(
            f"{name}: mean {statistics.mean(found):.3f}, highest {max(found):.3f}, at most 1.05 in "
            f"{near} of {len(found)} phases."
        )
    num_off = sum(best_held(cell["arms"], "gap_p99_ms") == "K=0" for cell in cells)
    lines.append(f"The P99 gap is lowest at draft length 0 in {num_off} of {len(cells)} phases.")
    return "\n\n".join(lines) + "\n"


def main() -> None:
    arguments = _parse()
    num_phases = len(build_trace("texts", load_profile(arguments.profiles[0])))
    cells = [
        Cell(profile, drafter, number, seed)
        for profile, drafter, number, seed in itertools.product(
            arguments.profiles, arguments.drafters, range(num_phases), range(arguments.seeds)
        )
    ]
    environment = asdict(describe_environment(sys.argv))
    today = time.strftime("%Y-%m-%d", time.gmtime())
    result = (
        ResultFile(
            arguments.results / f"governor-latency-simulator-{today}.json.gz",
            allow_dirty=arguments.allow_dirty,
        )
        if arguments.results
        else None
    )
    with ProcessPoolExecutor(arguments.processes) as pool:
        found = list(pool.map(simulate, cells))
    report = render_report(found)
    print(report)
    if result:
        document = {
            "schema_version": 1,
            "kind": "latency in the simulator",
            "environment": environment,
            "noise_fraction": NOISE_FRACTION,
            "cells": found,
        }
        result.write(rounded(document))
        head = f"# The policy latency in the policy simulator\n\n    {environment['command']}\n\n"
        page = sibling(result.path, ".md")
        write_text(page, head + report)
        print(f"written: {result.path} and {page.name}")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = profile_names()
    add = parser.add_argument
    add("--profiles", nargs="+", choices=names, default=names, metavar="NAME")
    add("--drafters", nargs="+", choices=DRAFTERS, default=["draft"])
    add("--seeds", type=int, default=1, metavar="N", help="seeds 0 to N - 1")
    add("--processes", type=int, default=2, metavar="N")
    add("--results", type=Path, metavar="FOLDER")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    if arguments.results is not None and not arguments.results.is_dir():
        parser.error(f"--results is {arguments.results}; it must be an existing folder")
    if arguments.seeds < 1:
        parser.error(f"--seeds is {arguments.seeds}; it must be at least 1")
    return arguments


if __name__ == "__main__":
    main()
