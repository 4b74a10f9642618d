"""Compare `plan replay` with held-out phases of a simulated engine, whose truth is known.

    python benchmarks/planner/check_replay.py --results benchmarks/results

Each scenario has traffic of its own (acceptance of two categories, spread, lengths) on one of the
simulator's machines, whose steps have noise and a slow drift. One phase of Poisson arrivals under
`goodput` is recorded. Predicted are phases with other numbers of requests at a time, at other fixed
lengths, and with another drafter, of which 200 requests were recorded: a third of these cells per
scenario, in turn. The truth is one run of such a phase.

Every recording and every truth draws its own requests, noise, and point of the drift. The cells of
a scenario share its recording, so their errors go together: the standard error of the mean error
counts scenarios, not cells. The exit code is 1 where the error is above 5 % in the median or above
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

SCENARIOS = (("cpu-twin", 1.5, 60.0), ("cpu-small", 4.0, 20.0))
"""Machine, recorded requests per second, and seconds of the held-out phases: some 100 requests."""
RECORDED_REQUESTS = 400
OTHER_DRAFTER_REQUESTS = 200
LENGTHS, OTHER_DRAFTER_LENGTHS = (0, 1, 3, 6), (1, 3)
CELLS_EVERY = 3
"""Every third cell of a scenario is predicted, from another one on for each seed."""
NUM_REPLICATES = 8
MAX_MEDIAN, MAX_NINE_OF_TEN, MIN_COVERED = 0.05, 0.10, 0.9
NOISE, DRIFT, DRIFT_PERIOD_S = 0.05, 0.02, 300.0
_ANY = Lengths(1, 1)


def main() -> None:
    """Record, predict, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=8, help="scenarios per machine")
    parser.add_argument("--results", type=Path, help="folder of the raw result")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    file = None
    if arguments.results is not None:
        date = describe_environment(sys.argv).date_utc[:10]
        path = arguments.results / f"plan-replay-{date}.json"
        file = ResultFile(path, allow_dirty=arguments.allow_dirty)
    cells = []
    for seed in range(arguments.seeds):
        for number in range(len(SCENARIOS)):
            for cell in check(number, seed):
                print(cell, flush=True)
                cells.append(cell)
    summary = summarise(cells)
    print(summary)
    if file is not None:
        environment = asdict(describe_environment(sys.argv))
        file.write({"environment": environment, "summary": summary, "cells": cells})
    sys.exit(not summary["passed"])


def check(scenario: int, seed: int) -> Iterator[dict[str, Any]]:
    """Predict the held-out phases of one scenario."""
    name, per_s, seconds = SCENARIOS[scenario]
    profile = load_profile(name)
    machine = profile.machine
    random = np.random.default_rng([scenario, seed])
    own = kinds(random)
    other = better(own)
    recording = record(machine, own, RECORDED_REQUESTS, per_s, random)
    second = record(machine, other, OTHER_DRAFTER_REQUESTS, per_s, random)
    loads = (4, profile.middle_concurrency, profile.high_concurrency)
    cells: list[tuple[Recording | None, int, int]] = []
    cells += [(None, n, length) for n in loads for length in LENGTHS]
    cells += [(second, n, length) for n in loads for length in OTHER_DRAFTER_LENGTHS]
    for drafter, num_requests, length in cells[seed % CELLS_EVERY :: CELLS_EVERY]:
        setting = Setting(
            make_policy=HeldLength,
            max_draft_length=length,
            load=ConstantConcurrency(num_requests),
            other_drafter=drafter,
            num_replicates=NUM_REPLICATES,
            seconds=seconds,
            seed=seed,
        )
        started_s = time.monotonic()
        found = predict(recording, setting).figures["output_tokens_per_s"]
        took_s = time.monotonic() - started_s
        classes = own if drafter is None else other
        truth = held_out(machine, classes, num_requests, length, seconds, random)
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


def kinds(random: np.random.Generator) -> tuple[TrafficClass, ...]:
    """Two categories, whose drafts are accepted more and less often."""
    found = []
    for name, low, high in (("easy", 0.75, 0.9), ("hard", 0.4, 0.65)):
        first = float(random.uniform(low, high))
        found.append(kind(name, first, spread=float(random.uniform(0.3, 0.8))))
    return tuple(found)


def kind(name: str, first: float, spread: float) -> TrafficClass:
    """The category by the acceptance of its first draft token."""
    return TrafficClass(name, _ANY, _ANY, DraftTruth((first, 0.95 * first, 0.9 * first), spread))


def better(classes: tuple[TrafficClass, ...]) -> tuple[TrafficClass, ...]:
    """The same categories with a drafter that closes 35 % of the gap to certain acceptance."""
    return tuple(
        kind(each.name, 0.65 * each.truth.hazards[0] + 0.35, each.truth.spread) for each in classes
    )


def requests(count: int, per_s: float, random: np.random.Generator) -> tuple[TimedRequest, ...]:
    """Poisson arrivals, 40 % of them easy."""
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


def disturbance(random: np.random.Generator) -> Disturbance:
    """Noise, and a drift from a random point on."""
    return Disturbance(
        noise_fraction=NOISE,
        drift_fraction=DRIFT,
        drift_period_s=DRIFT_PERIOD_S,
        drift_offset_s=float(random.uniform(0.0, DRIFT_PERIOD_S)),
    )


def record(
    machine: Machine,
    classes: tuple[TrafficClass, ...],
    count: int,
    per_s: float,
    random: np.random.Generator,
) -> Recording:
    """Record arrivals under goodput."""
    named = requests(count, per_s, random)
    phase = Phase("recorded", TimedLoop(), classes, named[-1].arrived_s + 20.0, requests=named)
    _, recording = record_phase(
        machine,
        create_policy("goodput", max_draft_length=machine.max_draft_length),
        phase,
        policy_name="goodput",
        seed=int(random.integers(2**31)),
        disturbance=disturbance(random),
    )
    return recording


def held_out(
    machine: Machine,
    classes: tuple[TrafficClass, ...],
    num_requests: int,
    length: int,
    seconds: float,
    random: np.random.Generator,
) -> float:
    """Tokens per second of a phase with requests that were not recorded."""
    engine = SimulatedEngine(
        machine,
        HeldLength(length),
        seed=int(random.integers(2**31)),
        disturbance=disturbance(random),
    )

    def phase(name: str, duration_s: float) -> Phase:
        named = requests(5000, 1.0, random)
        return Phase(name, ClosedLoop(num_requests), classes, duration_s, requests=named)

    engine.run(phase("warm-up", 0.5 * seconds))
    return engine.run(phase("held out", seconds)).tokens_per_s


def summarise(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the errors over all cells, and whether they keep what is stated."""
    by_scenario: dict[tuple[str, int], list[float]] = {}
    for cell in cells:
        by_scenario.setdefault((cell["machine"], cell["seed"]), []).append(cell["error"])
    means = [statistics.fmean(some) for some in by_scenario.values()]
    errors = sorted(abs(cell["error"]) for cell in cells)
    median = statistics.median(errors)
    within = sum(error <= MAX_NINE_OF_TEN for error in errors) / len(errors)
    covered = sum(cell["covered"] for cell in cells) / len(cells)
    passed = median <= MAX_MEDIAN and within >= 0.9 and covered >= MIN_COVERED
    return {
        "num_scenarios": len(means),
        "num_cells": len(cells),
        "mean_error": round(statistics.fmean(means), 5),
        "standard_error": round(statistics.stdev(means) / len(means) ** 0.5, 5),
        "num_too_low": sum(cell["error"] < 0.0 for cell in cells),
        "median_error": round(median, 5),
        "largest_error": errors[-1],
        "within_10_percent": round(within, 4),
        "covered": round(covered, 4),
        "passed": passed,
    }


if __name__ == "__main__":
    main()
