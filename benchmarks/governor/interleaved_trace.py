"""Run the shifting trace with the engines of all arms alive at once, phase by phase in turn.

Every arm has its own engine in its own process, without server or gateway. Each phase of each
repeat is run by all arms in shuffled order, on the same requests, in slices of the work: after each
slice the next arm continues, and the other engines are idle. So other load on the machine affects
all arms alike. The clocks of a paused engine stand still, so its policy sees no pause. The policies
see the phases as one shifting trace and keep what they learned. `none#again` is a second engine
without speculation; its ratio to `none` is the noise of the comparison. Two equal engines differ as
long as they live: resume a result after every repeat, which starts them anew in another order.

The work of a phase is fixed: REQUESTS * steps output tokens, from a closed loop, timed from the
moment all slots are decoding. `benchmarks/governor/interleaved/` has the parts; `phases.py` and
`arms.py` there describe the names of phases and arms.

    python benchmarks/governor/interleaved_trace.py --target runs/twin --results benchmarks/results
    python benchmarks/governor/interleaved_trace.py --set prefill ...
    python benchmarks/governor/interleaved_trace.py --arms none none#again K=2 goodput \\
        goodput@../other-checkout --phases 16-code-batches 16-hard-batches --keep-order ...
    python benchmarks/governor/interleaved_trace.py --render FILE.json.gz
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.governor.interleaved.arms import Arm, parse_arms
from benchmarks.governor.interleaved.campaign import idle_cores, run_campaign, warm_up
from benchmarks.governor.interleaved.engines import LAYOUTS, ROOT, EngineOptions, running_engines
from benchmarks.governor.interleaved.phases import SETS, parse_phase
from benchmarks.governor.interleaved.report import render_report
from benchmarks.governor.interleaved.requests import RequestMaker
from benchmarks.governor.interleaved.tokenizer import load_encoder
from benchmarks.results_file import add_allow_dirty, begin_or_resume, read_result, sibling
from paceline import demo
from paceline.foundation.named_models import drafter_folder, target_of
from paceline.foundation.results.environment import describe_environment

ARMS = ("none", "none#again", "K=1", "K=2", "K=3", "K=4", "K=6", "K=8", "goodput")


def build_plan(arguments: argparse.Namespace) -> dict[str, Any]:
    """All that determines what is run; a resumed run must have an equal plan."""
    names = arguments.phases or SETS[arguments.set]
    return {
        "target": Path(arguments.target).name,
        "drafter": arguments.drafter,
        "max_draft_length": arguments.max_draft_length,
        "dtype": arguments.dtype,
        "layout": arguments.layout,
        **({"is_compiled": True} if arguments.compile else {}),
        "arms": [arm.name for arm in arguments.parsed_arms],
        "phases": list(names),
        "is_shuffled": not (arguments.keep_order or arguments.set == "steady"),
        "steps": list(arguments.steps),
        "repeats": arguments.repeats,
        "seed": arguments.seed,
        "context_tokens": arguments.context_tokens,
        "prefill_share": arguments.prefill_share,
        "slow_down": arguments.slow_down,
        "slices": arguments.slices,
    }


def run(arguments: argparse.Namespace) -> Path:
    """Run the plan; the path of the raw result, which is saved after every repeat."""
    plan = build_plan(arguments)
    arms: tuple[Arm, ...] = arguments.parsed_arms
    result, document = begin_or_resume(
        arguments.resume or _path(arguments, plan),
        arguments.resume,
        {
            "schema_version": 1,
            "kind": "interleaved trace",
            "plan": plan,
            "environment": asdict(describe_environment(_without_paths(sys.argv, arguments))),
            "commits": {arm.name: _commit(arm) for arm in arms},
            "runs": [],
        },
        same=("plan", "commits"),
        but_for=("repeats",),
        allow_dirty=arguments.allow_dirty,
    )
    options = EngineOptions(
        arguments.target, arguments.drafter, arguments.draft, arguments.dtype,
        arguments.max_draft_length, arguments.kv_cache_bytes, arguments.layout, arguments.compile,
    )  # fmt: skip
    maker = RequestMaker(
        load_encoder(arguments.target), arguments.context_tokens, arguments.prefill_share
    )

    def save() -> None:
        result.write(document)
        sibling(result.path, ".md").write_text(render_report(document), encoding="utf-8")
        print(f"saved: {result.path}", flush=True)

    with (
        tempfile.TemporaryDirectory(prefix="interleaved-") as logs,
        running_engines(arms, options, Path(logs), seed=len(document["runs"])) as engines,
    ):
        document["memory_bytes"] = {name: one.memory_bytes() for name, one in engines.items()}
        print(f"memory: {sum(document['memory_bytes'].values()) / 1e9:.1f} GB", flush=True)
        warm_up(engines, maker)
        document["idle_cores"] = idle_cores(engines)
        print(f"all engines idle: {document['idle_cores']:.3f} cores", flush=True)
        run_campaign(plan, arms, engines, maker, document["runs"], save)
    return result.path


def _path(arguments: argparse.Namespace, plan: dict[str, Any]) -> Path:
    name = arguments.name or ("phases" if arguments.phases else arguments.set)
    today = time.strftime("%Y-%m-%d", time.gmtime())
    stem = f"governor-interleaved-{plan['target']}-{plan['drafter']}-{name}-{today}"
    folder: Path = arguments.results
    return folder / f"{stem}.json.gz"


def _commit(arm: Arm) -> str:
    """The commit of the arm's checkout, with "+changes" where files differ from it."""
    folder = arm.paths[0] if arm.paths else ROOT
    git = ["git", "-C", str(folder)]
    found = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True)
    if found.returncode:
        return "unknown"
    changes = subprocess.run(
        [*git, "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True
    )
    return found.stdout.strip() + ("+changes" if changes.stdout.strip() else "")


def _without_paths(argv: list[str], arguments: argparse.Namespace) -> list[str]:
    """The command line with the names of the arms in place of paths on this machine."""
    names = dict(zip(arguments.arms, (a.name for a in arguments.parsed_arms), strict=True))
    folders = {arguments.target: Path(arguments.target).name}
    folders[arguments.draft] = Path(arguments.draft).name
    return [names.get(word, folders.get(word, word)) for word in argv]


def main() -> None:
    arguments = _parse()
    if arguments.render:
        path = sibling(arguments.render, ".md")
        path.write_text(render_report(read_result(arguments.render)), encoding="utf-8")
        print(f"written: {path}")
        return
    print(f"written: {run(arguments)}")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--target", default=str(demo.target_path()), help="folder of the target model, or its name")
    add(
        "--draft",
        default=str(demo.draft_path()),
        help="folder of the drafter, or the name of the model that it is for",
    )
    add("--drafter", choices=("model", "head", "ngram"), default="model")
    add("--arms", nargs="+", default=list(ARMS), metavar="ARM")
    add("--set", choices=tuple(SETS), default="trace", help="the phases of a repeat")
    add("--phases", nargs="+", metavar="PHASE", help="phases of your own instead of --set")
    add("--keep-order", action="store_true", help="do not shuffle the phases of a repeat")
    add("--steps", type=int, nargs=2, default=(60, 150), metavar=("LOWEST", "HIGHEST"),
        help="output tokens per request slot in a phase")  # fmt: skip
    add("--repeats", type=int, default=4, metavar="N")
    add("--seed", type=int, default=0)
    add("--context-tokens", type=int, default=512, metavar="N", help="of long prompts")
    add("--prefill-share", type=float, default=0.33, metavar="SHARE",
        help="of prompt and output tokens in the prefill phases")  # fmt: skip
    add("--slow-down", type=float, nargs=3, metavar=("FACTOR", "FROM", "TO"),
        help="stretch the steps between two fractions of each phase's work")  # fmt: skip
    add("--slices", type=int, default=8, metavar="N",
        help="parts of a phase; the arms take turns after each part of the work")  # fmt: skip
    add("--max-draft-length", type=int, default=8, metavar="N")
    add("--dtype", default="float32")
    add("--kv-cache-bytes", type=int, default=512 * 1024**2, metavar="N")
    add("--compile", action="store_true", help="compile the model, as `paceline serve` does")
    add("--layout", choices=LAYOUTS, default="served", help="how engines use the cores")
    add("--results", type=Path, metavar="FOLDER")
    add_allow_dirty(parser)
    add("--name", help="part of the result's file name; by default the set")
    add("--resume", type=Path, metavar="FILE", help="complete this result; policies start anew")
    add("--render", type=Path, metavar="FILE", help="write the report of this result, run nothing")
    arguments = parser.parse_args()
    arguments.target, arguments.draft = target_of(arguments.target), drafter_folder(arguments.draft)
    if arguments.render is None:
        _check(parser, arguments)
    return arguments


def _check(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    if arguments.results is None and arguments.resume is None:
        parser.error("give --results FOLDER, the folder of the raw result")
    if not 0 < arguments.prefill_share < 1:
        parser.error(f"--prefill-share is {arguments.prefill_share}; it must be between 0 and 1")
    if arguments.slices < 1:
        parser.error(f"--slices is {arguments.slices}; it must be at least 1")
    if not 1 <= arguments.steps[0] <= arguments.steps[1]:
        parser.error(f"--steps is {arguments.steps}; it must be two numbers, the lower one first")
    try:
        arguments.parsed_arms = parse_arms(
            arguments.arms, max_draft_length=arguments.max_draft_length
        )
        for name in arguments.phases or ():
            parse_phase(name)
    except ValueError as error:
        parser.error(str(error))
    if arguments.slow_down is not None:
        factor, first, last = arguments.slow_down
        if factor < 1 or not 0 <= first < last <= 1:
            parser.error(
                f"--slow-down is {arguments.slow_down}; it must be a factor of at least 1 and two "
                "fractions, the lower one first"
            )
        arguments.slow_down = {"factor": factor, "from": first, "to": last}


if __name__ == "__main__":
    main()
