"""Every arm on one shifting trace, on the real engine behind `paceline serve`.

Two servers, one without speculation and one with, both up all the time; only one is under load.
First the fixed lengths (the tuning pass), from which the table of the arm `table` is made; the
drafting server starts anew with it. Then the repeats: every arm in turn, in another order each
time. Beside the results (JSON, saved after every run) stand a report in markdown and plots.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.governor.arms import ARMS, FIXED_ARMS
from benchmarks.governor.campaign import carry_out
from benchmarks.governor.phases import TRACE
from benchmarks.governor.plan import (
    BUNDLED,
    BUNDLED_CONTEXT_TOKENS,
    BUNDLED_PHASE_S,
    DRAFTERS,
    OTHER_CONTEXT_TOKENS,
    OTHER_PHASE_S,
    Wishes,
    build_plan,
)
from benchmarks.governor.results import write_report, write_results
from paceline.bench.results.environment import describe_environment

_EXAMPLES = """examples:
  python benchmarks/governor/run.py --results benchmarks/results
      the bundled pair, every arm, 5 repeats
  python benchmarks/governor/run.py --target runs/twin --results benchmarks/results
      the twin, with the bundled pair's draft model
  python benchmarks/governor/run.py --drafter ngram --arms none K=0 K=4 goodput --repeats 2
      some arms only; at least one fixed length is needed
  python benchmarks/governor/run.py --resume benchmarks/results/governor-bundled-model-….json
      go on after a break, with the same options otherwise
  python benchmarks/governor/run.py --render benchmarks/results/governor-bundled-model-….json
      write the report and the plots of earlier results again
"""


def main() -> None:
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.render:
        _announce(write_report(arguments.render))
        return
    if not set(arguments.arms) & set(FIXED_ARMS):
        parser.error(f"--arms needs at least one of {', '.join(FIXED_ARMS)}: the oracle")
    if not arguments.results.is_dir():
        parser.error(f"--results is {arguments.results}, which is no folder")
    wishes = _wishes(arguments)
    plan = build_plan(wishes)
    today = time.strftime("%Y-%m-%d", time.gmtime())
    target: Path = arguments.resume or arguments.results / f"{wishes.name}-{today}.json"
    document = _resume(target, plan) if arguments.resume else _begin(plan, sys.argv)
    # Servers are ended in `finally`, which a plain SIGTERM would skip.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    carry_out(document, lambda document: write_results(target, document))
    _announce([target, *write_report(target)])


def _begin(plan: dict[str, Any], argv: Sequence[str]) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "kind": "governor on a shifting trace",
        "plan": plan,
        "environment": asdict(describe_environment(argv)),
        "idle_cores": {},
        "resumed": 0,
        "table": None,
        "tuning_runs": [],
        "runs": [],
    }


def _resume(path: Path, plan: dict[str, Any]) -> dict[str, Any]:
    """The earlier document; ends the program when it belongs to another plan."""
    document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if document["plan"] != json.loads(json.dumps(plan)):
        sys.exit(f"Error: {path} holds results of another plan; give the same options as then.")
    document["resumed"] += 1
    return document


def _wishes(arguments: argparse.Namespace) -> Wishes:
    is_bundled = arguments.target == BUNDLED
    return Wishes(
        target=arguments.target,
        drafter=arguments.drafter,
        draft_model=arguments.draft_model,
        repeats=arguments.repeats,
        tuning_repeats=arguments.tuning_repeats,
        phase_s=arguments.phase_seconds or (BUNDLED_PHASE_S if is_bundled else OTHER_PHASE_S),
        context_tokens=arguments.context_tokens
        or (BUNDLED_CONTEXT_TOKENS if is_bundled else OTHER_CONTEXT_TOKENS),
        arms=tuple(arm for arm in ARMS if arm in arguments.arms),
    )


def _announce(paths: Sequence[Path]) -> None:
    for path in paths:
        print(f"written: {path}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--target", default=BUNDLED, metavar="MODEL", help="bundled, or a model's folder")
    add("--drafter", choices=DRAFTERS, default="model")
    add(
        "--draft-model",
        default=BUNDLED,
        metavar="FOLDER",
        help="for --drafter model; by default the bundled pair's, which fits the twin too",
    )
    add(
        "--arms",
        nargs="+",
        choices=list(ARMS),
        default=list(ARMS),
        metavar="ARM",
        help=f"of {', '.join(ARMS)}; by default all",
    )
    add("--repeats", type=_positive_int, default=5, metavar="N")
    add(
        "--tuning-repeats",
        type=_positive_int,
        default=1,
        metavar="N",
        help="runs of each fixed length before, for the table; by default 1",
    )
    add(
        "--phase-seconds",
        type=_positive_float,
        metavar="S",
        help=f"of each of the {len(TRACE)} phases; by default {BUNDLED_PHASE_S:g} for the bundled "
        f"target and {OTHER_PHASE_S:g} for others",
    )
    add(
        "--context-tokens",
        type=_positive_int,
        metavar="N",
        help="prompt and answer in the phase of long context; by default "
        f"{BUNDLED_CONTEXT_TOKENS} for the bundled target and {OTHER_CONTEXT_TOKENS} for others",
    )
    add("--results", type=Path, default=Path("benchmarks/results"), metavar="FOLDER")
    add("--resume", type=Path, metavar="FILE", help="go on with these results")
    add("--render", type=Path, metavar="FILE", help="only write report and plots of these results")
    return parser


def _positive_int(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} must be at least 1")
    return value


def _positive_float(text: str) -> float:
    value = float(text)
    if value <= 0:
        raise argparse.ArgumentTypeError(f"{text} must be above 0")
    return value


if __name__ == "__main__":
    main()
