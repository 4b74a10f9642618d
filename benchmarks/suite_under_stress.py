"""Run groups of the test suite several times on a machine that stops and starves their processes.

    python benchmarks/suite_under_stress.py unit-proxy chaos --times 10
    python benchmarks/suite_under_stress.py test --times 3 --results benchmarks/results
    python benchmarks/suite_under_stress.py --pytest tests/unit/gateway/proxy --times 3

The arguments are targets of `make`, or with `--pytest` files of tests. One process keeps a core
busy, and every 2 s on average a random process of the run is stopped for half a second. No other
process is stopped, and none stays stopped. `--results FOLDER` writes a raw result after each
repetition; `--resume FILE` completes it, after an interruption too. The exit code is 1 if a test
failed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.results_file import ResultFile, add_allow_dirty, add_resume, begin_or_resume
from benchmarks.stress.repetition import Repetition, Stress, run_once
from paceline.foundation.results.environment import describe_environment


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", nargs="+", metavar="TARGET", help="a target of make, such as test")
    parser.add_argument("--pytest", action="store_true", help="TARGETs are files of tests")
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--limit-s", type=float, default=3600.0, help="of one repetition")
    parser.add_argument("--stopped-s", type=float, default=0.5)
    parser.add_argument("--period-s", type=float, default=2.0, help="from stop to stop, on average")
    parser.add_argument("--no-busy-core", action="store_true")
    parser.add_argument("--results", type=Path, metavar="FOLDER", help="write a raw result there")
    add_resume(parser)
    add_allow_dirty(parser)
    options = parser.parse_args(argv)
    stress = Stress(options.stopped_s, options.period_s, not options.no_busy_core)
    result, document = _begin(options, stress)
    repetitions: list[dict[str, Any]] = document["repetitions"]
    while len(repetitions) < options.times:
        seed = len(repetitions)
        repetition = run_once(_command(options), stress, options.limit_s, seed)
        repetitions.append({"seed": seed, "is_green": repetition.is_green, **asdict(repetition)})
        if result is not None:
            result.write(document)
        print(render(len(repetitions), repetition), flush=True)
    num_green = sum(one["is_green"] for one in repetitions)
    print(f"{num_green} of {len(repetitions)} repetitions green")
    return 0 if num_green == len(repetitions) else 1


def _begin(options: argparse.Namespace, stress: Stress) -> tuple[ResultFile | None, dict[str, Any]]:
    environment = describe_environment(sys.argv)
    begun = {
        "schema_version": 1,
        "kind": "the test suite under stress",
        "environment": asdict(environment),
        "run": {"what": options.what, "is_pytest": options.pytest, **asdict(stress)},
        "repetitions": [],
    }
    if options.results is None and options.resume is None:
        return None, begun
    folder = options.results or options.resume.parent
    path = folder / f"suite-under-stress-{environment.date_utc[:10]}.json"
    return begin_or_resume(
        path, options.resume, begun, same=["run"], allow_dirty=options.allow_dirty
    )


def _command(options: argparse.Namespace) -> list[str]:
    if options.pytest:
        run = ["bash", "scripts/run-group.sh", "pytest", sys.executable, "-m", "pytest", "-q"]
        return [*run, *options.what]
    return ["make", "--keep-going", *options.what]


def render(number: int, repetition: Repetition) -> str:
    """One line for a repetition, and one for each test that failed in it."""
    ending = "green" if repetition.is_green else f"exit status {repetition.exit_status}"
    if repetition.exit_status is None:
        ending = "ended at its time limit"
    line = f"{number}: {ending}, {repetition.seconds:.0f} s, {repetition.num_stops} stops"
    tests = [
        f"    {group}: {test}"
        for group, names in repetition.failed.items()
        for test in names or ["failed without naming a test"]
    ]
    return "\n".join([line, *tests])


if __name__ == "__main__":
    sys.exit(main())
