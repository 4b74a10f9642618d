"""Experiment 1: the governor on a GPU, without weights, against an exact oracle.

Targets and drafts are shapes with dummy weights; vLLM's synthetic acceptance accepts drafts as each
phase says. So the best held length of a phase is known from a sweep, and the trace costs no
download. Four engines run one after the other (`engine_kinds`), each in a process of its own, on
the same phases; within an engine all arms take turns in each phase of each repeat. `comparison`
has the figures.

    python benchmarks/gpu/governor_without_weights.py --batches 4 64 --results benchmarks/results
    python benchmarks/gpu/governor_without_weights.py --resume FILE ...      # the engines it lacks
    python benchmarks/gpu/governor_without_weights.py --dry-run

With `--dry-run` the policy simulator runs the same arms in virtual time on a few small phases.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.governor.peers import sglang_ema
from benchmarks.gpu.comparison import compare, render_rows
from benchmarks.gpu.engine_kinds import ENGINE_KINDS, EngineKind
from benchmarks.gpu.phases import ArmRunner, LoadPhase, Turn, make_phases
from benchmarks.gpu.shapes import PAIRS, SHAPES, write_model
from benchmarks.gpu.simulated_runner import SimulatedRunner
from benchmarks.results_file import add_allow_dirty, add_resume, begin_or_resume
from paceline.foundation.results.environment import describe_environment

BATCHES = (1, 4, 16, 64, 256)
CONTEXTS, ACCEPTANCES = (256, 2048), (0.9, 0.6, 0.2)
TOY_PHASES = make_phases((4, 64), (128,), (0.9, 0.1))


def run_arms(
    runner: ArmRunner,
    kind: EngineKind,
    phases: Sequence[LoadPhase],
    *,
    num_steps: int,
    repeats: int,
    seed: int,
) -> list[Turn]:
    """Every arm of the engine in every phase, `repeats` times; both in shuffled order."""
    arms = kind.arms(runner.allowed_lengths())
    order = random.Random(seed)
    turns = []
    for repeat in range(repeats):
        for phase in order.sample(phases, len(phases)):
            for arm in order.sample(arms, len(arms)):
                turns.append(runner.run(arm, phase, num_steps, repeat))
                print(f"{turns[-1].tokens_per_s:10.0f} tokens/s  {arm:16s} {phase.name}")
    return turns


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parse(arguments)
    if options.dry_run:
        turns = []
        for kind in ENGINE_KINDS.values():
            runner = SimulatedRunner(kind)
            turns += run_arms(runner, kind, TOY_PHASES, num_steps=60, repeats=2, seed=0)
        print(render_rows(compare(turns, TOY_PHASES)))
    elif options.child is not None:
        _run_child(ENGINE_KINDS[options.child], options)
    else:
        _run(options)


def _run(options: argparse.Namespace) -> None:
    """Run the engines that the result lacks, and write it after each."""
    name = f"gpu-governor-{options.target}{'-sync' if options.synchronous else ''}.json.gz"
    phases = _phases(options)
    draft = PAIRS[options.target]
    result, document = begin_or_resume(
        options.results / name,
        options.resume,
        {
            "schema_version": 2,
            "kind": "governor on a GPU, without weights",
            "environment": asdict(describe_environment(sys.argv)),
            "plan": {
                "target": asdict(SHAPES[options.target]),
                "draft": None if draft is None else asdict(SHAPES[draft]),
                "is_async": not options.synchronous,
                "phases": [asdict(phase) for phase in phases],
                "steps": options.steps,
                "repeats": options.repeats,
            },
            "engines": {},
            "ratios": [],
        },
        same=("plan",),
        allow_dirty=options.allow_dirty,
    )
    engines: dict[str, Any] = document["engines"]
    for kind in ENGINE_KINDS.values():
        if kind.name not in engines:
            engines[kind.name] = _run_in_process(kind, options)
            turns = [_turn(entry) for found in engines.values() for entry in found]
            document["ratios"] = compare(turns, phases)
            result.write(document)
            print(f"written: {result.path}")
    print(render_rows(document["ratios"]))


def _run_in_process(kind: EngineKind, options: argparse.Namespace) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "turns.json"
        command = [sys.executable, __file__, "--child", kind.name, "--results", str(file)]
        command += ["--target", options.target, "--steps", str(options.steps)]
        command += ["--repeats", str(options.repeats)]
        command += ["--batches", *map(str, options.batches)]
        command += ["--synchronous"] if options.synchronous else []
        peers = str(Path(sglang_ema.__file__).parent)  # registers its policy
        path = os.pathsep.join(filter(None, [peers, os.environ.get("PYTHONPATH")]))
        subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": path})
        turns: list[dict[str, Any]] = json.loads(file.read_text())
    return turns


def _run_child(kind: EngineKind, options: argparse.Namespace) -> None:
    from benchmarks.gpu.vllm_runner import VllmRunner

    with tempfile.TemporaryDirectory() as folder:
        target = write_model(Path(folder) / "target", SHAPES[options.target])
        draft = PAIRS[options.target]
        turns = run_arms(
            VllmRunner(
                kind,
                target,
                None if draft is None else write_model(Path(folder) / "draft", SHAPES[draft]),
                is_async=not options.synchronous,
            ),
            kind,
            _phases(options),
            num_steps=options.steps,
            repeats=options.repeats,
            seed=0,
        )
    options.results.write_text(json.dumps([asdict(turn) for turn in turns]))


def _turn(entry: dict[str, Any]) -> Turn:
    return Turn(**{**entry, "lengths": tuple(entry["lengths"])})


def _phases(options: argparse.Namespace) -> list[LoadPhase]:
    return make_phases(tuple(options.batches), CONTEXTS, ACCEPTANCES)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--dry-run", action="store_true", help="simulate a few phases on the CPU")
    parser.add_argument("--target", choices=sorted(PAIRS), default="7b")
    parser.add_argument("--synchronous", action="store_true", help="no asynchronous scheduling")
    parser.add_argument("--batches", type=int, nargs="+", default=list(BATCHES))
    parser.add_argument("--steps", type=int, default=100, help="measured steps per turn")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--child", choices=tuple(ENGINE_KINDS), help=argparse.SUPPRESS)
    add_resume(parser)
    add_allow_dirty(parser)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
