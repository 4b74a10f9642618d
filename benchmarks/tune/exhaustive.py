"""`paceline tune` against an exhaustive search of the same grid.

By default on mock servers with 72 settings: batch size and step time need a server start, draft
length and requests in flight change at run time. With --config and --space on real engines. The
exhaustive search gives every setting --repeats blocks, all settings of a server in random order
within each repeat. Then the winner of each search is scored: both are served at once and take turns
with the same requests, which neither search has sent.

    python benchmarks/tune/exhaustive.py --results benchmarks/results
    python benchmarks/tune/exhaustive.py --config paceline.yaml --space space.yaml --block-seconds 4
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.workbench.tune.live import Launcher, carry_out
from paceline.workbench.tune.output.document import cell_document
from paceline.workbench.tune.search.trial_book import attained_fraction, surely_misses
from paceline.workbench.tune.tuning import TuneOptions, Tuning, prepare
from paceline.workbench.tune.values import Cell, Measurement, Purpose, SearchProblem, Trial

_SPECULATION = {
    "num_speculative_tokens": 3,
    "rejection_sample_method": "synthetic",
    "synthetic_acceptance_rates": [0.8, 0.6, 0.4],
}
_MOCK = (
    (
        f"{sys.executable} -m paceline.testing.mock_vllm --port {{port}} --max-num-seqs {{seqs}} "
        "--tpot-ms {base_ms} --tpot-per-sequence-ms 0.32 --draft-ms 0.8 --verify-ms 0.12 "
        "--eos-every-tokens 0 --prefill-tokens-per-s 50000 "
        f"--speculative-config '{json.dumps(_SPECULATION)}'"
    )
    .replace('{"', '{{"')
    .replace("]}", "]}}")
)
_MOCK_SPACE = """\
restart:
  seqs: [4, 8, 16]
  base_ms: [8, 10.4]    # stands for a drafter or a format that changes the speed of every step
live:
  draft_length: [0, 1, 3]
  max_in_flight: [2, 4, 8, 16]
"""
_FIRST_SCORING_SEQUENCE = 1000
"""Sequences below it are used by the search."""


async def measure_all(
    problem: SearchProblem, launcher: Launcher, repeats: int
) -> dict[Cell, list[Measurement]]:
    """Every setting `repeats` times; each server is started once."""
    order = random.Random(problem.seed)
    measured: dict[Cell, list[Measurement]] = {cell: [] for cell in problem.cells}
    for restart, lives in problem.settings.items():
        async with launcher.start(restart) as server:
            for sequence in range(repeats):
                cells = [Cell(restart, live) for live in lives]
                order.shuffle(cells)
                for cell in cells:
                    trial = Trial(cell, Purpose.SEARCH, sequence)
                    measured[cell].append(await server.run(trial))
        print(f"exhaustive: {restart.label} done", flush=True)
    return measured


def best_of(problem: SearchProblem, measured: dict[Cell, list[Measurement]]) -> Cell:
    """The setting with the most goodput per dollar that does not surely miss the SLO."""
    allowed = {
        cell: blocks
        for cell, blocks in measured.items()
        if not surely_misses(blocks, problem.min_attained_fraction)
    }
    return max(allowed, key=lambda cell: mean_goodput(allowed[cell]) / problem.price(cell.restart))


async def score(
    launcher: Launcher, cells: list[Cell], repeats: int
) -> dict[Cell, list[Measurement]]:
    """Both winners in turns, with requests that neither was chosen on."""
    scores: dict[Cell, list[Measurement]] = {cell: [] for cell in cells}
    async with contextlib.AsyncExitStack() as stack:
        servers = {
            restart: await stack.enter_async_context(launcher.start(restart))
            for restart in dict.fromkeys(cell.restart for cell in cells)
        }
        for repeat in range(repeats):
            turns = list(scores) if repeat % 2 else list(reversed(scores))
            for cell in turns:
                trial = Trial(cell, Purpose.HELD_OUT, _FIRST_SCORING_SEQUENCE + repeat)
                scores[cell].append(await servers[cell.restart].run(trial))
    return scores


def mean_goodput(blocks: list[Measurement]) -> float:
    return statistics.fmean(block.good_requests_per_s for block in blocks)


def describe(cell: Cell, blocks: list[Measurement]) -> dict[str, Any]:
    """A setting and its blocks."""
    return {
        **cell_document(cell),
        "good_requests_per_s": mean_goodput(blocks),
        "attained_fraction": attained_fraction(blocks),
        "blocks": [dataclasses.asdict(block) for block in blocks],
    }


async def run(
    tuning: Tuning, folder: Path, arguments: argparse.Namespace, result: ResultFile
) -> None:
    """Both searches and the scores; the result is written after each part."""
    problem = tuning.state.problem
    launcher = tuning.launcher(folder, api_key=None, start_timeout_s=900.0, request_timeout_s=120.0)
    outcome = await carry_out(tuning.state, launcher)
    num_trials = len(tuning.state.measurements)
    document: dict[str, Any] = {
        "schema_version": 1,
        "kind": "tune against an exhaustive search",
        "environment": dataclasses.asdict(tuning.environment),
        "question": dataclasses.asdict(tuning.options),
        "num_cells": len(problem.cells),
        "tune": {
            "num_trials": num_trials,
            "num_starts": tuning.state.num_starts,
            "num_cells_tried": len(outcome.tried),
            "why_ended": outcome.why_ended,
            "winner": None
            if outcome.winner is None
            else describe(outcome.winner.cell, list(outcome.winner.blocks)),
        },
    }
    result.write(document)
    print(f"tune: {num_trials} trials, {tuning.state.num_starts} starts", flush=True)
    measured = await measure_all(problem, launcher, arguments.repeats)
    best = best_of(problem, measured)
    num_exhaustive = arguments.repeats * len(problem.cells)
    document["exhaustive"] = {
        "num_trials": num_exhaustive,
        "trials_fraction": num_trials / num_exhaustive,
        "best": cell_document(best),
    }
    document["cells"] = [describe(cell, blocks) for cell, blocks in measured.items()]
    result.write(document)
    if outcome.winner is None:
        print("tune found no setting that meets the SLO", flush=True)
        return
    winner = outcome.winner.cell
    scores = await score(launcher, list(dict.fromkeys((winner, best))), arguments.score_repeats)
    loss = 1 - mean_goodput(scores[winner]) / mean_goodput(scores[best])
    document["scores"] = [describe(cell, blocks) for cell, blocks in scores.items()]
    document["loss"] = loss
    result.write(document)
    print(f"tune's winner: {winner.label}")
    print(f"exhaustive best: {best.label}")
    print(
        f"loss {loss:+.2%}; {num_trials / num_exhaustive:.1%} of the trials; the winner has "
        f"{attained_fraction(scores[winner]):.1%} within the SLO on new requests"
    )


def options_of(arguments: argparse.Namespace, folder: Path) -> TuneOptions:
    """Of the real engine if one is named, else of the mock servers."""
    shared: dict[str, Any] = {
        "block_s": arguments.block_seconds,
        "seed": arguments.seed,
        "max_minutes": 600.0,
    }
    if arguments.config is not None:
        return TuneOptions(
            config=str(arguments.config),
            space=None if arguments.space is None else str(arguments.space),
            slo_ttft_ms=arguments.slo_ttft_ms,
            slo_tpot_ms=arguments.slo_tpot_ms,
            attain_percent=arguments.attain,
            **shared,
        )
    space = folder / "space.yaml"
    space.write_text(_MOCK_SPACE)
    return TuneOptions(
        server_command=_MOCK,
        space=str(space),
        slo_ttft_ms=arguments.slo_ttft_ms,
        slo_tpot_ms=arguments.slo_tpot_ms,
        attain_percent=arguments.attain,
        workload="predictable",
        max_tokens=8,
        **shared,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--config", type=Path, help="paceline.yaml of a real engine")
    parser.add_argument("--space", type=Path, help="search space of the real engine")
    parser.add_argument("--slo-ttft-ms", type=float, default=100.0)
    parser.add_argument("--slo-tpot-ms", type=float, default=9.6)
    parser.add_argument("--attain", type=float, default=80.0, help="percent")
    parser.add_argument("--block-seconds", type=float, default=0.25)
    parser.add_argument("--repeats", type=int, default=10, help="blocks of every setting")
    parser.add_argument("--score-repeats", type=int, default=20, help="blocks of each winner")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=Path(__file__).parents[1] / "results")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    today = time.strftime("%Y-%m-%d", time.gmtime())
    name = "engine" if arguments.config is not None else "mock"
    result = ResultFile(
        arguments.results / f"tune-{name}-{today}.json.gz", allow_dirty=arguments.allow_dirty
    )
    with tempfile.TemporaryDirectory(prefix="tune-exhaustive-") as text:
        folder = Path(text)
        tuning = prepare(options_of(arguments, folder), None, sys.argv)
        asyncio.run(run(tuning, folder, arguments, result))
    print(f"written: {result.path}")


if __name__ == "__main__":
    main()
