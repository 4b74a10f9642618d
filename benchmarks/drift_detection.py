"""False flags and delays of the watch for drift, on simulated requests whose truth is known.

    python benchmarks/drift_detection.py --results benchmarks/results

Each run learns a full reference, then watches 10,000 requests without a shift, and from the same
reference up to 1,000 requests whose mean acceptance is higher or lower by 0.1. Requests differ,
their text has easy and hard passages, and the draft length changes every 50 requests. The exit code
is 1 where a run without a shift is flagged, or where, in the scenarios of independent requests that
differ by at most 0.15, fewer than 95 % of the shifts are flagged within 200 requests.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import statistics
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.foundation.results.environment import describe_environment
from paceline.runtime.engine.drift.category_watch import FULL_REFERENCE, CategoryWatch
from paceline.runtime.engine.drift.text_acceptance import AcceptanceSums, RequestVerdicts
from paceline.testing.policy_simulator.traffic.passages import PassageTraffic, draft_text, draw_text

SHIFT = 0.1
WITHIN = 200
MAX_DELAY = 1000
UNSHIFTED = 10_000
LENGTHS = (1, 2, 3, 4, 6, 8)
PHASE_REQUESTS = 50
SCENARIOS = {
    "alike": PassageTraffic(0.6, spread=0.05, output_tokens=60),
    "different": PassageTraffic(0.6, spread=0.12, output_tokens=60),
    "long passages": PassageTraffic(0.6, spread=0.1, passage_tokens=30.0, output_tokens=90),
    "high acceptance": PassageTraffic(0.8, spread=0.1, output_tokens=60),
    "very different": PassageTraffic(0.5, spread=0.2, output_tokens=60),
    "sessions of five": PassageTraffic(0.6, spread=0.12, output_tokens=60, session_requests=5),
}
STRICT = ("alike", "different", "long passages", "high acceptance")
"""Scenarios in which the delay must be met."""


def main() -> None:
    """Run all scenarios and write the raw result."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20, help="runs per scenario")
    parser.add_argument("--results", type=Path, help="folder of the raw result")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    environment = asdict(describe_environment(sys.argv))
    file = None
    if arguments.results is not None:
        path = arguments.results / f"drift-detection-{environment['date_utc'][:10]}.json"
        file = ResultFile(path, allow_dirty=arguments.allow_dirty)
    cells = []
    for name, traffic in SCENARIOS.items():
        runs = [run(traffic, seed) for seed in range(arguments.runs)]
        cells.append({"scenario": name, **asdict(traffic), **summarise(runs), "runs": runs})
        print(name, summarise(runs), flush=True)
        if file is not None:
            file.write(
                {
                    "environment": environment,
                    "settings": {"shift": SHIFT, "reference_requests": FULL_REFERENCE},
                    "is_complete": len(cells) == len(SCENARIOS),
                    "scenarios": cells,
                }
            )
    if file is not None:
        print(file.path)
    failed = [
        cell["scenario"]
        for cell in cells
        if cell["flagged_without_shift"]
        or (cell["scenario"] in STRICT and cell["within_fraction"] < 0.95)
    ]
    if failed:
        sys.exit(f"missed in: {', '.join(failed)}")


def run(traffic: PassageTraffic, seed: int) -> dict[str, Any]:
    """One reference, watched without a shift and with one in each direction."""
    random = np.random.default_rng(seed)
    watch = CategoryWatch()
    flagged_meanwhile = 0
    for request in requests(traffic, UNSHIFTED, random):
        flagged_meanwhile += watch.add(request) is not None
        if watch.reference is not None and watch.reference.num_requests >= FULL_REFERENCE:
            break
    assert watch.reference is not None
    return {
        "seed": seed,
        "flagged_while_learned": flagged_meanwhile,
        "reference_mean": round(watch.reference.mean, 4),
        "reference_deviation": round(watch.reference.variance**0.5, 4),
        "flag_without_shift": flagged_after(watch, requests(traffic, UNSHIFTED, random)),
        "delay_fall": flagged_after(watch, requests(traffic.shifted(-SHIFT), MAX_DELAY, random)),
        "delay_rise": flagged_after(watch, requests(traffic.shifted(SHIFT), MAX_DELAY, random)),
    }


def requests(
    traffic: PassageTraffic, num: int, random: np.random.Generator
) -> Iterator[AcceptanceSums]:
    """The sums of each request; the draft length changes every `PHASE_REQUESTS`."""
    lengths = random.choice(LENGTHS, -(-num // PHASE_REQUESTS)).tolist()
    for number, mean in enumerate(traffic.means(random, num)):
        length = lengths[number // PHASE_REQUESTS]
        verdicts = RequestVerdicts()
        text = draw_text(traffic, mean, random)
        for requested, accepted in draft_text(text, itertools.repeat(length).__next__):
            verdicts.add(requested, accepted)
        yield verdicts.sums()


def flagged_after(learned: CategoryWatch, given: Iterator[AcceptanceSums]) -> int | None:
    """Requests until the flag; None without one. Leaves `learned` as it is."""
    watch = copy.deepcopy(learned)
    for number, request in enumerate(given, start=1):
        if watch.add(request) is not None:
            return number
    return None


def summarise(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Flags without a shift, and the delays with one; a shift that is not flagged counts as the
    longest delay."""
    delays = [one[key] or MAX_DELAY for one in runs for key in ("delay_fall", "delay_rise")]
    false_flags = sum(
        one["flagged_while_learned"] + (one["flag_without_shift"] is not None) for one in runs
    )
    watched = sum(one["flag_without_shift"] or UNSHIFTED for one in runs)
    return {
        "num_runs": len(runs),
        "flagged_without_shift": false_flags,
        "watched_without_shift": watched,
        "median_delay": statistics.median(delays),
        "longest_delay": max(delays),
        "within_fraction": round(sum(delay <= WITHIN for delay in delays) / len(delays), 4),
        "reference_deviation": round(statistics.fmean(r["reference_deviation"] for r in runs), 4),
    }


if __name__ == "__main__":
    main()
