"""Compare `plan replay` with held-out phases of a simulated engine, whose truth is known.

    python benchmarks/planner/check_replay.py --results benchmarks/results

Each scenario has traffic of its own (acceptance of two categories, spread, lengths) on one of the
simulator's machines, whose steps have noise and a slow drift. One phase of Poisson arrivals under
`goodput` is recorded. Predicted are phases with other numbers of requests at a time, at other fixed
lengths, and with another drafter, of which 200 requests were recorded. The truth is one run of such
a phase with other requests. The exit code is 1 where the error is above 5 % in the median or above
10 % in more than one of ten, or the interval covers fewer than nine of ten.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.bench.results.environment import describe_environment
from paceline.plan.replay.prediction import Setting, predict
from paceline.plan.replay.values import ConstantConcurrency
from paceline.policy_registry import create_policy
from paceline.policy_simulator.engine.simulated_engine import SimulatedEngine
from paceline.policy_simulator.evaluation.arms import HeldLength
from paceline.policy_simulator.evaluation.recorded_phase import record_phase
from paceline.policy_simulator.machines.machine import Disturbance, Machine
from paceline.policy_simulator.machines.profiles import load_profile
from paceline.policy_simulator.traffic.phases import (
    ClosedLoop,
    DraftTruth,
    Lengths,
    Phase,
    TimedLoop,
    TimedRequest,
    TrafficClass,
)
from paceline.recording.reading import Recording

SCENARIOS = (("cpu-twin", 1.5, 400), ("cpu-small", 4.0, 400))
"""Machine, recorded requests per second, and their number."""
OTHER_DRAFTER_REQUESTS = 200
HELD_OUT_S = 60.0
NUM_REPLICATES = 8
MAX_MEDIAN, MAX_NINE_OF_TEN, MIN_COVERED = 0.05, 0.10, 0.9
DISTURBANCE = Disturbance(noise_fraction=0.05, drift_fraction=0.02, drift_period_s=300.0)
_ANY = Lengths(1, 1)


def main() -> None:
    """Record, predict, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=1, help="traffic drawn per machine")
    parser.add_argument("--results", type=Path, help="folder of the raw result")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    file = None
    if arguments.results is not None:
        date = describe_environment(sys.argv).date_utc[:10]
        path = arguments.results / f"plan-replay-{date}.json"
        file = ResultFile(path, allow_dirty=arguments.allow_dirty)
    cells = []
    for machine, per_s, count in SCENARIOS:
        for seed in range(arguments.seeds):
            for cell in check(machine, per_s, count, seed):
                print(cell, flush=True)
                cells.append(cell)
    summary = summarise(cells)
    print(summary)
    if file is not None:
        environment = asdict(describe_environment(sys.argv))
        file.write({"environment": environment, "summary": summary, "cells": cells})
    sys.exit(not summary["passed"])


def check(name: str, per_s: float, count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Predict the held-out phases of one scenario."""
    profile = load_profile(name)
    machine = profile.machine
    own, other = kinds(seed, better=False), kinds(seed, better=True)
    recording = record(machine, own, count, per_s, seed)
    second = record(machine, other, OTHER_DRAFTER_REQUESTS, per_s, seed + 100)
    lengths = (0, 1, 3, 6)
    loads = (4, profile.middle_concurrency, profile.high_concurrency)
    for drafter in (None, second):
        for num_requests in loads:
            for length in lengths if drafter is None else lengths[1:3]:
                setting = Setting(
                    make_policy=lambda ceiling, length=length: HeldLength(length),
                    max_draft_length=length,
                    load=ConstantConcurrency(num_requests),
                    other_drafter=drafter,
                    num_replicates=NUM_REPLICATES,
                    seconds=HELD_OUT_S,
                )
                started_s = time.monotonic()
                found = predict(recording, setting).figures["output_tokens_per_s"]
                took_s = time.monotonic() - started_s
                truth = held_out(machine, own if drafter is None else other, num_requests, length)
                assert found is not None
                yield {
                    "machine": name,
                    "seed": seed,
                    "other_drafter": drafter is not None,
                    "num_requests": num_requests,
                    "draft_length": length,
                    "truth_tokens_per_s": round(truth, 3),
                    "predicted": found.value,
                    "low": found.low,
                    "high": found.high,
                    "error": round(found.value / truth - 1.0, 5),
                    "covered": found.low <= truth <= found.high,
                    "took_s": round(took_s, 1),
                }


def kinds(seed: int, *, better: bool) -> tuple[TrafficClass, ...]:
    """Two categories; the drafts of the better drafter are accepted more often."""
    random = np.random.default_rng([seed, 1])
    gain = 0.35 if better else 0.0
    found = []
    for name, low, high in (("easy", 0.75, 0.9), ("hard", 0.4, 0.65)):
        first = float(random.uniform(low, high))
        first += gain * (1.0 - first)
        truth = DraftTruth((first, 0.95 * first, 0.9 * first), float(random.uniform(0.3, 0.8)))
        found.append(TrafficClass(name, _ANY, _ANY, truth))
    return tuple(found)


def requests(count: int, per_s: float, seed: int) -> tuple[TimedRequest, ...]:
    """Poisson arrivals, 40 % of them easy."""
    random = np.random.default_rng([seed, 2])
    times_s = np.cumsum(random.exponential(1.0 / per_s, count))
    return tuple(
        TimedRequest(
            float(time_s),
            "easy" if random.random() < 0.4 else "hard",
            int(random.integers(20, 400)),
            int(random.integers(30, 150)),
        )
        for time_s in times_s
    )


def record(
    machine: Machine, classes: tuple[TrafficClass, ...], count: int, per_s: float, seed: int
) -> Recording:
    """Record arrivals under goodput."""
    named = requests(count, per_s, seed)
    phase = Phase("recorded", TimedLoop(), classes, named[-1].arrived_s + 20.0, requests=named)
    policy = create_policy("goodput", max_draft_length=machine.max_draft_length)
    _, recording = record_phase(
        machine, policy, phase, policy_name="goodput", seed=seed, disturbance=DISTURBANCE
    )
    return recording


def held_out(
    machine: Machine, classes: tuple[TrafficClass, ...], num_requests: int, length: int
) -> float:
    """Tokens per second of a phase with requests that were not recorded."""
    engine = SimulatedEngine(machine, HeldLength(length), seed=77, disturbance=DISTURBANCE)

    def phase(name: str, duration_s: float, seed: int) -> Phase:
        named = requests(20_000, 1.0, seed)
        return Phase(name, ClosedLoop(num_requests), classes, duration_s, requests=named)

    engine.run(phase("warm-up", 20.0, 10_001))
    return engine.run(phase("held out", HELD_OUT_S, 10_002)).tokens_per_s


def summarise(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the errors over all cells, and whether they keep what is stated."""
    errors = sorted(abs(cell["error"]) for cell in cells)
    median = statistics.median(errors)
    within = sum(error <= MAX_NINE_OF_TEN for error in errors) / len(errors)
    covered = sum(cell["covered"] for cell in cells) / len(cells)
    passed = median <= MAX_MEDIAN and within >= 0.9 and covered >= MIN_COVERED
    return {
        "num_cells": len(cells),
        "median_error": round(median, 5),
        "largest_error": errors[-1],
        "within_10_percent": round(within, 4),
        "covered": round(covered, 4),
        "passed": passed,
    }


if __name__ == "__main__":
    main()
