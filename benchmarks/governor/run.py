"""Measure every arm on one shifting trace, on the real engine served by `paceline serve`.

Two servers, one without and one with speculation, are up all the time; only one is under load. The
tuning pass runs the fixed lengths and derives the table of the arm `table`; the drafting server
then restarts with that table. The repeats run every arm in turn, in a different order each time.
The results (compressed JSON) are saved after every run; a report in markdown and plots follow at
the end. The plots need matplotlib, which
`make install-dev` installs.

`runs/twin` in the examples is the bundled 11M target padded to the cost of about 120M parameters
with layers that add nothing: `python -m paceline.demo.recipe.deepen`.
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

from benchmarks.governor.report.files import write_report
from benchmarks.governor.trace.arms import ARMS, FIXED_ARMS
from benchmarks.governor.trace.campaign import carry_out
from benchmarks.governor.trace.phases import TRACE
from benchmarks.governor.trace.plan import (
    BUNDLED,
    BUNDLED_CONTEXT_TOKENS,
    BUNDLED_PHASE_S,
    DRAFTERS,
    OTHER_CONTEXT_TOKENS,
    OTHER_PHASE_S,
    TraceOptions,
    build_plan,
)
from benchmarks.results_file import ResultFile, add_allow_dirty, read_result
from paceline.bench.results.environment import describe_environment

_EXAMPLES = """examples:
  python benchmarks/governor/run.py --results benchmarks/results
      the bundled pair, every arm, 5 repeats
  python benchmarks/governor/run.py --target runs/twin --results benchmarks/results
      the twin, with the bundled pair's draft model
  python benchmarks/governor/run.py --drafter ngram --arms none K=0 K=4 goodput --repeats 2
      some arms only; at least one fixed length is needed
  python benchmarks/governor/run.py --resume benchmarks/results/governor-bundled-model-….json.gz
      continue an interrupted run; the other options must be the same
  python benchmarks/governor/run.py --render benchmarks/results/governor-bundled-model-….json.gz
      write the report and the plots of these results again
"""


def main() -> None:
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.render:
        _announce(write_report(arguments.render))
        return
    if not set(arguments.arms) & set(FIXED_ARMS):
        parser.error(
            f"--arms needs at least one of {', '.join(FIXED_ARMS)}; the oracle is made of them"
        )
    if not arguments.results.is_dir():
        parser.error(f"--results is {arguments.results}; it must be an existing folder")
    options = _options(arguments)
    plan = build_plan(options)
    today = time.strftime("%Y-%m-%d", time.gmtime())
    allow_dirty = arguments.allow_dirty
    if arguments.resume:
        document = _resume(arguments.resume, plan)
        result = ResultFile.resume(arguments.resume, allow_dirty=allow_dirty)
    else:
        document = _begin(plan, sys.argv)
        path = arguments.results / f"{options.name}-{today}.json.gz"
        result = ResultFile(path, allow_dirty=allow_dirty)
    # Servers are stopped in `finally`, which a plain SIGTERM would skip.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    carry_out(document, result.write)
    _announce([result.path, *write_report(result.path)])


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
    """The earlier document; exits when it belongs to another plan."""
    document = read_result(path)
    if document["plan"] != json.loads(json.dumps(plan)):
        sys.exit(f"Error: {path} holds results of another plan; give the options it was made with.")
    document["resumed"] += 1
    return document


def _options(arguments: argparse.Namespace) -> TraceOptions:
    is_bundled = arguments.target == BUNDLED
    return TraceOptions(
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
    add("--target", default=BUNDLED, metavar="MODEL", help="bundled, or the folder of a model")
    add("--drafter", choices=DRAFTERS, default="model")
    add(
        "--draft-model",
        default=BUNDLED,
        metavar="FOLDER",
        help="for --drafter model; by default that of the bundled pair, which also fits the twin",
    )
    add(
        "--arms",
        nargs="+",
        choices=list(ARMS),
        default=list(ARMS),
        metavar="ARM",
        help=f"any of {', '.join(ARMS)}; by default all",
    )
    add("--repeats", type=_positive_int, default=5, metavar="N")
    add(
        "--tuning-repeats",
        type=_positive_int,
        default=1,
        metavar="N",
        help="runs of each fixed length to tune the table on; by default 1",
    )
    add(
        "--phase-seconds",
        type=_positive_float,
        metavar="S",
        help=f"duration of each of the {len(TRACE)} phases; by default {BUNDLED_PHASE_S:g} for the "
        f"bundled target and {OTHER_PHASE_S:g} for others",
    )
    add(
        "--context-tokens",
        type=_positive_int,
        metavar="N",
        help="prompt and answer together in the phase of long context; by default "
        f"{BUNDLED_CONTEXT_TOKENS} for the bundled target and {OTHER_CONTEXT_TOKENS} for others",
    )
    add("--results", type=Path, default=Path("benchmarks/results"), metavar="FOLDER")
    add_allow_dirty(parser)
    add("--resume", type=Path, metavar="FILE", help="continue these results")
    add(
        "--render",
        type=Path,
        metavar="FILE",
        help="only write report and plots of these results",
    )
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
