"""Experiment 1: the governor on a GPU, without weights, against an exact oracle.

Targets and drafts are shapes with dummy weights; vLLM's synthetic acceptance accepts drafts as each
phase says. So the best held length of a phase is known from a sweep, and the trace costs no
download. Every repeat runs all arms in each phase, in turn. `none` is an engine of its own, started
without speculation, in a process of its own.

    python benchmarks/gpu/governor_without_weights.py --results benchmarks/results
    python benchmarks/gpu/governor_without_weights.py --target 32b --synchronous ...
    python benchmarks/gpu/governor_without_weights.py --dry-run

With `--dry-run` the policy simulator runs the same arms in virtual time on a few small phases.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.gpu.phases import ArmRunner, LoadPhase, Turn, make_phases
from benchmarks.gpu.shapes import PAIRS, SHAPES, write_model
from benchmarks.gpu.simulated_runner import SimulatedRunner
from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.bench.results.environment import describe_environment

POLICIES = ("goodput", "latency", "threshold")
MAX_DRAFT_LENGTH = 8
BATCHES = (1, 16, 64, 256)
CONTEXTS, ACCEPTANCES = (256, 2048), (0.9, 0.6, 0.2)
TOY_PHASES = make_phases((2, 64), (128,), (0.9, 0.1))


def run_arms(
    runner: ArmRunner,
    arms: Sequence[str],
    phases: Sequence[LoadPhase],
    *,
    num_steps: int,
    repeats: int,
    seed: int,
) -> list[Turn]:
    """Every arm in every phase, `repeats` times; phases and arms in shuffled order."""
    order = random.Random(seed)
    turns = []
    for repeat in range(repeats):
        for phase in order.sample(phases, len(phases)):
            for arm in order.sample(arms, len(arms)):
                turns.append(runner.run(arm, phase, num_steps, repeat))
                print(f"{turns[-1].tokens_per_s:10.0f} tokens/s  {arm:10s} {phase.name}")
    return turns


def arms_of(runner: ArmRunner) -> list[str]:
    """Every length that the engine runs at full speed, held, and the policies."""
    return [*(f"K={length}" for length in runner.allowed_lengths()), *POLICIES]


def compare(turns: Sequence[Turn], policies: Sequence[str] = POLICIES) -> list[dict[str, Any]]:
    """Per phase and policy: the rate over the best held length's, lowest to highest, and n.

    The best length of a repeat is chosen on the other repeats, where there are any.
    """
    rows = []
    for phase in dict.fromkeys(turn.phase for turn in turns):
        rates = {
            (turn.arm, turn.repeat): turn.tokens_per_s for turn in turns if turn.phase == phase
        }
        held = sorted({arm for arm, _ in rates if arm == "none" or arm.startswith("K=")})
        repeats = sorted({repeat for _, repeat in rates})
        for policy in policies:
            ratios = []
            for repeat in repeats:
                others = [other for other in repeats if other != repeat] or [repeat]

                def mean(arm: str, chosen: list[int] = others, of: Any = rates) -> float:
                    return statistics.fmean(of[arm, other] for other in chosen)

                best = max(held, key=mean)
                ratios.append(rates[policy, repeat] / rates[best, repeat])
            rows.append(
                {
                    "phase": phase,
                    "policy": policy,
                    "best": max(held, key=lambda arm: statistics.fmean(
                        rates[arm, repeat] for repeat in repeats
                    )),
                    "lowest": min(ratios),
                    "median": statistics.median(ratios),
                    "highest": max(ratios),
                    "n": len(ratios),
                }
            )  # fmt: skip
    return rows


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parse(arguments)
    if options.dry_run:
        runner = SimulatedRunner()
        turns = run_arms(
            runner, ["none", *arms_of(runner)], TOY_PHASES, num_steps=60, repeats=2, seed=0
        )
        _print_rows(compare(turns))
        return
    if options.child is not None:
        _run_child(options)
        return
    name = f"gpu-governor-{options.target}{'-sync' if options.synchronous else ''}.json.gz"
    result = ResultFile(options.results / name, allow_dirty=options.allow_dirty)
    turns = []
    with tempfile.TemporaryDirectory() as folder:
        for child in ("speculative", "none"):
            file = Path(folder) / f"{child}.json"
            command = [sys.executable, __file__, "--child", child, "--results", str(file)]
            command += ["--target", options.target, "--steps", str(options.steps)]
            command += ["--repeats", str(options.repeats)]
            command += ["--batches", *map(str, options.batches)]
            command += ["--synchronous"] if options.synchronous else []
            subprocess.run(command, check=True)
            turns += [
                Turn(**{**entry, "lengths": tuple(entry["lengths"])})
                for entry in json.loads(file.read_text())
            ]
    rows = compare(turns)
    result.write(
        {
            "schema_version": 1,
            "kind": "governor on a GPU, without weights",
            "environment": describe_environment(sys.argv),
            "target": asdict(SHAPES[options.target]),
            "draft": asdict(SHAPES[PAIRS[options.target]]),
            "is_async": not options.synchronous,
            "phases": [asdict(phase) for phase in _phases(options)],
            "turns": [asdict(turn) for turn in turns],
            "ratios": rows,
        }
    )
    _print_rows(rows)
    print(f"written: {result.path}")


def _run_child(options: argparse.Namespace) -> None:
    from benchmarks.gpu.vllm_runner import VllmRunner

    with tempfile.TemporaryDirectory() as folder:
        target = write_model(Path(folder) / "target", SHAPES[options.target])
        draft = write_model(Path(folder) / "draft", SHAPES[PAIRS[options.target]])
        runner = VllmRunner(
            target,
            draft if options.child == "speculative" else None,
            max_draft_length=MAX_DRAFT_LENGTH,
            max_num_seqs=256,
            is_async=not options.synchronous,
        )
        turns = run_arms(
            runner,
            ["none"] if options.child == "none" else arms_of(runner),
            _phases(options),
            num_steps=options.steps,
            repeats=options.repeats,
            seed=0,
        )
    options.results.write_text(json.dumps([asdict(turn) for turn in turns]))


def _phases(options: argparse.Namespace) -> list[LoadPhase]:
    return make_phases(tuple(options.batches), CONTEXTS, ACCEPTANCES)


def _print_rows(rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        print(
            f"{row['phase']:34s} {row['policy']:10s} {row['median']:.3f} of {row['best']} "
            f"({row['lowest']:.3f} to {row['highest']:.3f}, n = {row['n']})"
        )


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dry-run", action="store_true", help="simulate a few phases on the CPU")
    parser.add_argument("--target", choices=sorted(PAIRS), default="7b")
    parser.add_argument("--synchronous", action="store_true", help="no asynchronous scheduling")
    parser.add_argument("--batches", type=int, nargs="+", default=list(BATCHES))
    parser.add_argument("--steps", type=int, default=100, help="measured steps per turn")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--child", choices=("speculative", "none"), help=argparse.SUPPRESS)
    add_allow_dirty(parser)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
