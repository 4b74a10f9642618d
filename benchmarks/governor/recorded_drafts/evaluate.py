"""Evaluate policies offline, on recorded drafts of the bundled pair.

Every arm serves the same phases of the same texts on a modelled machine, and is compared with the
best fixed length of each phase, chosen on the other seeds (`scoring`). Writes one raw result per
machine and prints a table. The result is determined by the seeds. Step times are modelled, also
those of machines named after GPUs; acceptance is recorded (`recordings`).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from benchmarks.governor.markdown_table import table
from benchmarks.governor.recorded_drafts.arms import build_arm, fixed_arm
from benchmarks.governor.recorded_drafts.machines import (
    MACHINES,
    Machine,
    TableCost,
    build_machine,
    measured_machine,
)
from benchmarks.governor.recorded_drafts.recordings import Recordings, read_recordings
from benchmarks.governor.recorded_drafts.replay import Replay
from benchmarks.governor.recorded_drafts.scoring import ArmScore, Run, score_arms
from benchmarks.governor.recorded_drafts.traces import TRACES, build_trace
from benchmarks.governor.simulate import rounded
from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.foundation.results.environment import describe_environment

DEFAULT_ARMS = ("sglang-ema", "goodput", "clairvoyant")
_EXAMPLES = """examples:
  python benchmarks/governor/recorded_drafts/evaluate.py --results benchmarks/results
  python benchmarks/governor/recorded_drafts/evaluate.py --machine cpu-twin --arms goodput --seeds 2
"""


def run_trace(
    trace_name: str, machine: Machine, recordings: Recordings, seed: int, arms: Sequence[str]
) -> Run:
    """All fixed lengths of the oracle and `arms` on one seed's trace."""
    trace = build_trace(trace_name, machine, seed)
    rates = {}
    for name in dict.fromkeys([*map(fixed_arm, trace.oracle_lengths), *arms]):
        new_arms = [build_arm(name, machine, seed) for _ in trace.phases]
        replays = [Replay(machine, recordings, arm) for arm in new_arms]
        if not trace.are_starts:
            replays = replays[:1] * len(replays)
        rates[name] = tuple(
            replay.run(phase).tokens_per_s
            for replay, phase in zip(replays, trace.phases, strict=True)
        )
    return Run(
        tuple(phase.name for phase in trace.phases),
        tuple(phase.tokens for phase in trace.phases),
        rates,
    )


def render_scores(scores: Mapping[str, ArmScore]) -> str:
    """A table of all arms, the worst phase with its standard error."""
    heads = ("arm", "of the oracle (sd)", "mixed batches", "worst phase (se)", "which")
    rows = [
        (
            name,
            f"{score.of_oracle:.3f} ({score.spread:.3f})",
            "-" if score.of_mixed is None else f"{score.of_mixed:.3f}",
            f"{score.of_phases[score.worst_phase]:.3f} ({score.worst_spread:.3f})",
            score.worst_phase,
        )
        for name, score in scores.items()
    ]
    return table(heads, rows)


def main() -> None:
    arguments = _parse()
    environment = asdict(describe_environment(sys.argv))
    today = time.strftime("%Y-%m-%d", time.gmtime())
    recordings = read_recordings()
    machines = [build_machine(name) for name in arguments.machine]
    if arguments.costs is not None:
        machines = [measured_machine(arguments.costs)]
    files = {
        machine: ResultFile(
            arguments.results
            / f"governor-recorded-drafts-{arguments.trace}-{machine.name}-{today}.json",
            allow_dirty=arguments.allow_dirty,
        )
        for machine in machines
    }
    for machine, file in files.items():
        runs = [
            run_trace(arguments.trace, machine, recordings, seed, arguments.arms)
            for seed in range(arguments.seeds)
        ]
        lengths = build_trace(arguments.trace, machine, 0).oracle_lengths
        scores = score_arms(runs, tuple(map(fixed_arm, lengths)))
        document = {
            "schema_version": 1,
            "kind": "governor on recorded drafts",
            "environment": environment,
            "machine": machine.name,
            "costs": asdict(machine.cost.table) if isinstance(machine.cost, TableCost) else None,
            "trace": arguments.trace,
            "seeds": arguments.seeds,
            "scores": {arm: asdict(score) for arm, score in scores.items()},
            "runs": [asdict(run) for run in runs],
        }
        file.write(rounded(document))
        title = f"## {machine.name}, {arguments.trace}, {arguments.seeds} seeds"
        print(f"{title}\n\n{render_scores(scores)}\n")
        print(f"written: {file.path}\n", flush=True)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--machine", nargs="+", choices=MACHINES, default=list(MACHINES), metavar="NAME")
    add(
        "--costs",
        type=Path,
        metavar="FILE",
        help="a table that an engine stored, in ~/.cache/paceline/costs, instead of --machine",
    )
    add("--trace", choices=TRACES, default=TRACES[0])
    add("--seeds", type=int, default=8, metavar="N", help="seeds 0 to N - 1; at least 2")
    add(
        "--arms",
        nargs="+",
        default=list(DEFAULT_ARMS),
        metavar="ARM",
        help="beside the oracle's fixed lengths: K=0 to K=8, sglang-ema, clairvoyant, or a "
        "policy's name, with words as in goodput:lengths:draft+20 (arms.py)",
    )
    add("--results", type=Path, default=Path("benchmarks/results"), metavar="FOLDER")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    if arguments.seeds < 2:
        parser.error(f"--seeds is {arguments.seeds}; the oracle needs at least 2")
    for name in arguments.arms:
        try:
            build_arm(name, build_machine(arguments.machine[0]), 0)
        except ValueError as error:
            parser.error(f"--arms: {error}")
    return arguments


if __name__ == "__main__":
    main()
