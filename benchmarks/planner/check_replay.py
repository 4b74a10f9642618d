"""Compare `plan replay` with held-out phases of a simulated engine, whose truth is known.

    python benchmarks/planner/check_replay.py --results benchmarks/results

Each scenario has traffic of its own (acceptance of two categories, spread, lengths) on one
simulated machine, whose steps have noise and a slow drift. One phase of Poisson arrivals under
`goodput` is recorded. Predicted are phases with other numbers of requests at a time, at other fixed
lengths, and with another drafter, of which 200 requests were recorded: a sixth of these cells per
scenario, in turn. The truth is one run of such a phase: the interval must cover a measurement of
this length, not the mean of many. The cost of the machines `cpu-twin` and `cpu-small` is linear, as
the replay assumes; that of the others is a roofline, which bends elsewhere than the replay's.

Every recording and every truth draws its own requests, noise, and point of the drift. The cells of
a scenario share its recording, so their errors go together: the standard errors count scenarios,
not cells. With `--parts` the cells of each scenario are kept in a folder, and a scenario that is
there is not run again: a long check may be run in pieces of `--at-most` scenarios.

The exit code is 1 where the error is above 5 % in the median or above 10 % in more than one of ten,
or the interval covers fewer than nine of ten.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.foundation.recording.reading import Recording
from paceline.foundation.results.environment import describe_environment
from paceline.runtime.policy_registry import create_policy
from paceline.testing.policy_simulator.engine.simulated_engine import SimulatedEngine
from paceline.testing.policy_simulator.evaluation.arms import HeldLength
from paceline.testing.policy_simulator.evaluation.recorded_phase import record_phase
from paceline.testing.policy_simulator.machines.cost import LinearCost
from paceline.testing.policy_simulator.machines.machine import Disturbance, Machine
from paceline.testing.policy_simulator.machines.profiles import load_profile, parse_profile
from paceline.testing.policy_simulator.machines.roofline import RooflineCost
from paceline.testing.policy_simulator.traffic.phases import (
    ClosedLoop,
    DraftTruth,
    Lengths,
    Phase,
    TimedLoop,
    TimedRequest,
    TrafficClass,
)
from paceline.workbench.plan.replay.prediction import Setting, predict
from paceline.workbench.plan.replay.values import ConstantConcurrency


@dataclass(frozen=True, slots=True)
class Site:
    """A machine and its load."""

    machine: str
    """A profile of the policy simulator, or one of `machines/`."""
    per_s: float
    """Recorded requests per second."""
    seconds: float
    """Of the held-out phases: some 100 requests or more."""
    lengths: tuple[int, ...] = (0, 1, 3, 6)
    """Draft lengths of the held-out phases."""


SITES = (
    Site("cpu-twin", 1.5, 60.0),
    Site("cpu-small", 4.0, 20.0),
    Site("7b-h200", 16.0, 15.0, (0, 1, 3, 7)),
    Site("8b-l4", 2.5, 40.0, (0, 1, 3, 7)),
    Site("1.5b-cpu-server", 4.0, 20.0),
)
RECORDED_REQUESTS = 400
LOADS = (4, 8, 32)
"""Requests at a time in the held-out phases."""
OTHER_DRAFTER_REQUESTS = 200
OTHER_DRAFTER_LENGTHS = (1, 3)
CELLS_EVERY = 6
"""Every sixth cell of a scenario is predicted, from another one on for each seed."""
NUM_REPLICATES = 8
MAX_MEDIAN, MAX_NINE_OF_TEN, MIN_COVERED = 0.05, 0.10, 0.9
NOISE, DRIFT, DRIFT_PERIOD_S = 0.05, 0.02, 300.0
_ANY = Lengths(1, 1)
_MACHINES = Path(__file__).parent / "machines"


def main() -> None:
    """Record, predict, compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=8, help="scenarios per machine")
    parser.add_argument("--first-seed", type=int, default=0)
    names = [site.machine for site in SITES]
    parser.add_argument("--machines", nargs="+", choices=names, default=names)
    parser.add_argument("--parts", type=Path, help="folder of scenarios that are done")
    parser.add_argument("--at-most", type=int, help="scenarios to run before the rest is left")
    parser.add_argument("--results", type=Path, help="folder of the raw result")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    file = None
    if arguments.results is not None:
        date = describe_environment(sys.argv).date_utc[:10]
        path = arguments.results / f"plan-replay-{date}.json"
        file = ResultFile(path, allow_dirty=arguments.allow_dirty)
    cells: list[dict[str, Any]] = []
    num_run = 0
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
        for machine in arguments.machines:
            part = None if arguments.parts is None else arguments.parts / f"{machine}-{seed}.json"
            if part is not None and part.exists():
                cells += json.loads(part.read_text())
                continue
            if num_run == arguments.at_most:
                sys.exit(f"{num_run} scenarios were run; repeat the command for the next ones")
            num_run += 1
            done = []
            for cell in check(names.index(machine), seed):
                print(cell, flush=True)
                done.append(cell)
            cells += done
            if part is not None:
                part.parent.mkdir(parents=True, exist_ok=True)
                part.write_text(json.dumps(done))
    summary = summarise(cells)
    print(json.dumps(summary, indent=1))
    if file is not None:
        environment = asdict(describe_environment(sys.argv))
        file.write({"environment": environment, "summary": summary, "cells": cells})
    sys.exit(not summary["passed"])


def load_site(site: Site) -> tuple[Machine, tuple[int, ...]]:
    """The machine, and its captured graph sizes."""
    path = _MACHINES / f"{site.machine}.toml"
    if path.exists():
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        machine = parse_profile(site.machine, content).machine
    else:
        machine = load_profile(site.machine).machine
    cost = machine.cost
    assert isinstance(cost, LinearCost | RooflineCost)
    return machine, cost.graphs.sizes


def check(number: int, seed: int) -> Iterator[dict[str, Any]]:
    """Predict the held-out phases of one scenario at the site of this number."""
    site = SITES[number]
    machine, graph_sizes = load_site(site)
    random = np.random.default_rng([number, seed])
    own = kinds(random)
    other = better(own)
    recording = record(machine, graph_sizes, own, RECORDED_REQUESTS, site.per_s, random)
    second = record(machine, graph_sizes, other, OTHER_DRAFTER_REQUESTS, site.per_s, random)
    cells: list[tuple[Recording | None, int, int]] = []
    cells += [(None, n, length) for n in LOADS for length in site.lengths]
    cells += [(second, n, length) for n in LOADS for length in OTHER_DRAFTER_LENGTHS]
    for drafter, num_requests, length in cells[seed % CELLS_EVERY :: CELLS_EVERY]:
        setting = Setting(
            make_policy=lambda length, _: HeldLength(length),
            max_draft_length=length,
            load=ConstantConcurrency(num_requests),
            other_drafter=drafter,
            num_replicates=NUM_REPLICATES,
            seconds=site.seconds,
            seed=seed,
        )
        found = predict(recording, setting).figures["output_tokens_per_s"]
        classes = own if drafter is None else other
        truth = held_out(machine, classes, num_requests, length, site.seconds, random)
        assert found is not None
        yield {
            "machine": site.machine,
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
    graph_sizes: tuple[int, ...],
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
        graph_sizes=graph_sizes,
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
        named = requests(2000, 1.0, random)
        return Phase(name, ClosedLoop(num_requests), classes, duration_s, requests=named)

    engine.run(phase("warm-up", 0.5 * seconds))
    return engine.run(phase("held out", seconds)).tokens_per_s


def summarise(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the errors over all cells, and whether they keep what is stated."""
    errors = sorted(abs(cell["error"]) for cell in cells)
    median = statistics.median(errors)
    within = sum(error <= MAX_NINE_OF_TEN for error in errors) / len(errors)
    covered = sum(cell["covered"] for cell in cells) / len(cells)
    mean_error, standard_error = mean_by_scenario(cells, "error")
    passed = median <= MAX_MEDIAN and within >= 0.9 and covered >= MIN_COVERED
    machines = sorted({cell["machine"] for cell in cells})
    return {
        "num_scenarios": len({(cell["machine"], cell["seed"]) for cell in cells}),
        "num_cells": len(cells),
        "mean_error": mean_error,
        "standard_error": standard_error,
        "num_too_low": sum(cell["error"] < 0.0 for cell in cells),
        "median_error": round(median, 5),
        "largest_error": errors[-1],
        "within_10_percent": round(within, 4),
        "covered": round(covered, 4),
        "covered_standard_error": mean_by_scenario(cells, "covered")[1],
        "median_half_width": median_half_width(cells),
        "by_machine": {
            machine: summarise_machine([cell for cell in cells if cell["machine"] == machine])
            for machine in machines
        },
        "passed": passed,
    }


def summarise_machine(cells: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the figures of one machine."""
    mean_error, standard_error = mean_by_scenario(cells, "error")
    return {
        "num_cells": len(cells),
        "mean_error": mean_error,
        "standard_error": standard_error,
        "median_error": round(statistics.median(abs(cell["error"]) for cell in cells), 5),
        "covered": round(sum(cell["covered"] for cell in cells) / len(cells), 4),
        "median_half_width": median_half_width(cells),
    }


def mean_by_scenario(cells: list[dict[str, Any]], figure: str) -> tuple[float, float | None]:
    """The mean over scenarios of their cells' mean, and its standard error."""
    scenarios: dict[tuple[str, int], list[float]] = {}
    for cell in cells:
        scenarios.setdefault((cell["machine"], cell["seed"]), []).append(float(cell[figure]))
    means = [statistics.fmean(some) for some in scenarios.values()]
    error = statistics.stdev(means) / len(means) ** 0.5 if len(means) > 1 else None
    return round(statistics.fmean(means), 5), None if error is None else round(error, 5)


def median_half_width(cells: list[dict[str, Any]]) -> float:
    """Of the intervals, relative to the prediction."""
    widths = (0.5 * (cell["high"] - cell["low"]) / cell["predicted"] for cell in cells)
    return round(statistics.median(widths), 5)


if __name__ == "__main__":
    main()
