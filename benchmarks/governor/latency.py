"""The policy `latency` in the simulator: how fast are the slowest answers?

Steady phases, every load with every kind of text (trace `texts`), each on an engine of its own, its
beginning left out. Every held draft length and the policies serve the same requests. Per arm:

- tpot_p99: over the answers, of the time from the first token to the last per token after the first
- gap_p99: over all gaps between two tokens of an answer, 0 between those of one chunk
- tokens_per_s

Prints how much slower each policy's slowest answers are than those of the best held length.
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

from benchmarks.governor.markdown import table
from benchmarks.governor.rows import render_results
from benchmarks.governor.simulate import DRAFTERS, NOISE_FRACTION, rounded
from paceline.bench.results.environment import describe_environment
from paceline.bench.results.files import write_text
from paceline.policy_simulator.engine.step_log import StepLog
from paceline.policy_simulator.evaluation.arms import (
    HeldLength,
    governed_policy,
    held_name,
    run_trace,
)
from paceline.policy_simulator.machines.machine import Disturbance
from paceline.policy_simulator.machines.profiles import load_profile, profile_names
from paceline.policy_simulator.traffic.traces import build_trace
from paceline.policy_simulator.traffic.traffic import ClosedLoop

POLICIES = ("goodput", "latency")
_WARM_UP_STEPS = 400
_ANSWERS = 300
"""About so many end in a phase: a P99 of fewer is their slowest."""
_STEPS_PER_ANSWER = 112
"""Mean answers of 224 tokens at 2 a step."""
_LEAST_STEPS = 1200


@dataclass(frozen=True, slots=True)
class Cell:
    """One phase to compare all arms in."""

    profile: str
    drafter: str
    phase_number: int
    seed: int


def simulate(cell: Cell) -> dict[str, Any]:
    """Every arm in one phase."""
    profile = load_profile(cell.profile)
    if cell.drafter == "ngram":
        profile = replace(profile, machine=profile.machine.with_ngram())
    machine = profile.machine
    phase = build_trace("texts", profile)[cell.phase_number]
    assert isinstance(phase.load, ClosedLoop)
    num_steps = max(_ANSWERS * _STEPS_PER_ANSWER // phase.load.first, _LEAST_STEPS)
    warm_up = replace(phase, duration_s=None, num_steps=_WARM_UP_STEPS)
    measured = replace(phase, duration_s=None, num_steps=num_steps)
    held = range(machine.max_draft_length + 1)
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
    """One arm's figures; times in milliseconds."""
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
    """The held length at which a time is least."""
    return min((name for name in arms if name.startswith("K=")), key=lambda n: arms[n][figure])


def ratios(cell: Mapping[str, Any]) -> dict[str, float]:
    """Each policy's P99 time per output token over the best held length's."""
    arms = cell["arms"]
    best = arms[best_held(arms, "tpot_p99_ms")]["tpot_p99_ms"]
    return {name: arms[name]["tpot_p99_ms"] / best for name in POLICIES}


def render_report(cells: Sequence[Mapping[str, Any]]) -> str:
    """A row per phase, and what holds over all of them."""
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
        *(f"{name}: P99 TPOT over the best K's" for name in POLICIES),
        "latency: tokens/s over goodput's",
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
    lines.append(f"The P99 gap is least at draft length 0 in {num_off} of {len(cells)} phases.")
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
    with ProcessPoolExecutor(arguments.processes) as pool:
        found = list(pool.map(simulate, cells))
    report = render_report(found)
    print(report)
    if arguments.results:
        document = {
            "schema_version": 1,
            "kind": "latency in the simulator",
            "environment": environment,
            "noise_fraction": NOISE_FRACTION,
            "cells": found,
        }
        today = time.strftime("%Y-%m-%d", time.gmtime())
        target = arguments.results / f"governor-latency-simulator-{today}.json"
        write_text(target, render_results(rounded(document), ("cells",)))
        head = f"# The policy latency in the simulator\n\n    {environment['command']}\n\n"
        write_text(target.with_suffix(".md"), head + report)
        print(f"written: {target} and {target.with_suffix('.md').name}")


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
    arguments = parser.parse_args()
    if arguments.results is not None and not arguments.results.is_dir():
        parser.error(f"--results is {arguments.results}, which is no folder")
    if arguments.seeds < 1:
        parser.error(f"--seeds is {arguments.seeds}; it must be at least 1")
    return arguments


if __name__ == "__main__":
    main()
