"""Compare naive serving, plain vLLM, vLLM with static speculation and Paceline in one run.

For each model (the bundled pair and the twin) all servers are started and stay alive; they answer
the same requests slice by slice in turn, so that drift and other load of the machine weigh on all
alike. `vllm#again` is a second plain vLLM; its ratio to the first is the noise. `arms.py` and
`cells.py` describe the servers and the loads, `published.py` the figures to compare with.

    python benchmarks/headline/run.py --results benchmarks/results
    python benchmarks/headline/run.py --resume FILE.json.gz ...
    python benchmarks/headline/run.py --render FILE.json.gz
    python benchmarks/headline/run.py --dry-run --results /tmp

The twin is made in `--twin` if that folder does not exist, and the weights of quantized arms in
folders beside it, such as `runs/twin-w8a8`. The result is saved after every repeat, with a report
and plots beside it. `--dry-run` uses mock servers and tiny cells: it checks the course of a run,
and its figures mean nothing.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.headline.arms import DEFAULT_ARMS, PLAIN, Arm, ModelFolders, parse_arms, server_plan
from benchmarks.headline.campaign import measure_offered_rate, run_campaign, warm_up
from benchmarks.headline.cells import CELLS, OFFERED, Cell, parse_cells, toy
from benchmarks.headline.dry_run import mock_plan
from benchmarks.headline.files import write_report
from benchmarks.headline.http_arm import HttpArm
from benchmarks.results_file import ResultFile, add_allow_dirty, read_result
from benchmarks.servers import running_servers, watch_idle
from paceline import demo
from paceline.bench.results.environment import describe_environment

MODELS = ("bundled", "twin")
PRICE_SOURCE = "AWS m7i.large, on demand, N. Virginia, Linux, 2025-07-01"
USD_PER_HOUR = 0.1008
_QUANTIZE = (sys.executable, "-c", "from paceline.cli import main; main()", "quantize")
_TIMEOUT_S = 900.0
"""Of a request; the last of a queue at the naive server waits for all before it."""


def build_plan(arguments: argparse.Namespace) -> dict[str, Any]:
    """All that determines what is run; a resumed run must have an equal plan."""
    return {
        "models": list(arguments.models),
        "arms": [arm.name for arm in arguments.parsed_arms],
        "cells": [cell.name for cell in arguments.parsed_cells],
        "requests": {cell.name: cell.num_requests for cell in arguments.parsed_cells},
        "repeats": arguments.repeats,
        "slices": arguments.slices,
        "max_tokens": arguments.max_tokens,
        "kv_cache_mib": arguments.kv_cache_mib,
        "offered_fraction": arguments.offered_fraction,
        "seed": arguments.seed,
        "usd_per_hour": arguments.usd_per_hour,
        "price_source": arguments.price_source,
        "note": "Dry run with mock servers: the figures mean nothing." if arguments.dry_run
        else arguments.note,
    }  # fmt: skip


def run(arguments: argparse.Namespace) -> Path:
    """Run the plan; the path of the raw result, which is saved after every repeat."""
    plan = build_plan(arguments)
    environment = describe_environment(_without_paths(sys.argv, arguments))
    document: dict[str, Any] = {
        "schema_version": 1,
        "kind": "headline",
        "plan": plan,
        "environment": asdict(environment),
        "offered_per_s": {},
        "idle_cores": {},
        "runs": [],
    }
    if arguments.resume:
        result = ResultFile.resume(arguments.resume, allow_dirty=arguments.allow_dirty)
        document = resumed(read_result(arguments.resume), document)
    else:
        stem = "headline" + (f"-{arguments.name}" if arguments.name else "")
        path = arguments.results / f"{stem}-{environment.date_utc[:10]}.json.gz"
        result = ResultFile(path, allow_dirty=arguments.allow_dirty)

    def save() -> None:
        result.write(document)
        write_report(result.path, document)
        print(f"saved: {result.path}", flush=True)

    for model in arguments.models:
        if not _is_complete(document, model, arguments.parsed_arms, arguments.parsed_cells):
            _run_model(model, arguments, document, save)
    return result.path


def resumed(earlier: dict[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """The earlier result with the number of repeats of this one.

    SystemExit if the plan differs in anything else, or the commit does.
    """
    plan = document["plan"]
    if {**earlier["plan"], "repeats": 0} != {**plan, "repeats": 0}:
        raise SystemExit(f"the result has another plan: {earlier['plan']}; this is {plan}")
    before, now = (one["environment"]["commit"] for one in (earlier, document))
    if before != now:
        raise SystemExit(f"the result is of commit {before}; the checkout is at {now}")
    return {**earlier, "plan": plan}


def _is_complete(
    document: Mapping[str, Any], model: str, arms: Sequence[Arm], cells: Sequence[Cell]
) -> bool:
    plan = document["plan"]
    num_turns = sum(run["model"] == model for run in document["runs"])
    return bool(num_turns == len(arms) * len(cells) * plan["slices"] * plan["repeats"])


def _run_model(
    model: str, arguments: argparse.Namespace, document: dict[str, Any], save: Any
) -> None:
    plan, arms, cells = document["plan"], arguments.parsed_arms, arguments.parsed_cells
    folders = model_folders(model, arguments)
    plans = {
        arm.name: mock_plan(arm)
        if arguments.dry_run
        else server_plan(arm, folders, plan["kv_cache_mib"] * 1024**2)
        for arm in arms
    }
    with (
        tempfile.TemporaryDirectory(prefix="headline-") as logs,
        running_servers({"servers": plans}, Path(logs)) as servers,
    ):
        limits = {"max_tokens": plan["max_tokens"], "seed": plan["seed"]}
        runners = {
            arm.name: HttpArm(arm, servers[arm.name].url, cells, timeout_s=_TIMEOUT_S, **limits)
            for arm in arms
        }
        warm_up(arms, cells, runners)
        document["idle_cores"][model] = watch_idle(list(servers.values()))
        print(f"all servers idle: {sum(document['idle_cores'][model].values()):.3f} cores")
        offered = document["offered_per_s"]
        if OFFERED in plan["cells"] and model not in offered:
            fraction = plan["offered_fraction"]
            offered[model] = measure_offered_rate(cells, runners[PLAIN], fraction)
        rate = offered.get(model, 1.0)
        run_campaign(plan, arms, cells, runners, rate, document["runs"], save, model=model)


def model_folders(model: str, arguments: argparse.Namespace) -> ModelFolders:
    """The models that the arms serve; makes the twin and quantized folders that do not exist."""
    target, draft = demo.target_path(), str(demo.draft_path())
    if arguments.dry_run:
        return ModelFolders(model, str(target), draft)
    name = model
    if model == "twin":
        _make_twin(target, arguments.twin)
        target, name = arguments.twin, arguments.twin.name
    schemes = dict.fromkeys(arm.scheme for arm in arguments.parsed_arms if arm.scheme)
    quantized = {scheme: arguments.twin.with_name(f"{name}-{scheme}") for scheme in schemes}
    for scheme, out in quantized.items():
        _quantize(target, scheme, out)
    return ModelFolders(
        model, str(target), draft, {scheme: str(out) for scheme, out in quantized.items()}
    )


def _make_twin(target: Path, out: Path) -> None:
    if not (out / "config.json").is_file():
        print(f"making the twin in {out}", flush=True)
        recipe = "paceline.demo.recipe.deepen"
        subprocess.run([sys.executable, "-m", recipe, str(target), str(out)], check=True)


def _quantize(target: Path, scheme: str, out: Path) -> None:
    """SystemExit if `paceline quantize` refuses or fails; it has printed why."""
    if not (out / "config.json").is_file():
        print(f"making {scheme} weights in {out}", flush=True)
        command = [*_QUANTIZE, str(target), "--scheme", scheme, "--out", str(out)]
        if subprocess.run(command, check=False).returncode != 0:
            raise SystemExit(f"paceline quantize made no {scheme} weights of {target}")


def _without_paths(argv: Sequence[str], arguments: argparse.Namespace) -> list[str]:
    """The command line without the place of the twin on this machine."""
    return ["runs/twin" if word == str(arguments.twin) else word for word in argv]


def main(argv: Sequence[str] | None = None) -> None:
    arguments = _parse(argv)
    if arguments.render:
        for path in write_report(arguments.render, read_result(arguments.render)):
            print(f"written: {path}")
        return
    print(f"written: {run(arguments)}")


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--models", nargs="+", choices=MODELS, default=list(MODELS))
    add("--twin", type=Path, default=Path("runs/twin"), metavar="FOLDER")
    add("--arms", nargs="+", default=list(DEFAULT_ARMS), metavar="ARM")
    add("--cells", nargs="+", default=[cell.name for cell in CELLS], metavar="CELL")
    add("--repeats", type=int, default=4, metavar="N")
    add("--slices", type=int, default=2, metavar="N",
        help="parts of a cell in each repeat; the arms take turns in each part")  # fmt: skip
    add("--few-requests", action="store_true", help="as few requests as each load allows")
    add("--max-tokens", type=int, default=96, metavar="N", help="of an answer")
    add("--kv-cache-mib", type=int, default=256, metavar="N", help="of every server but naive")
    add("--offered-fraction", type=float, default=0.7, metavar="F",
        help="offered rate / what plain vLLM answers with 16 requests in flight")  # fmt: skip
    add("--usd-per-hour", type=float, default=USD_PER_HOUR, metavar="USD",
        help=f"price of the machine; by default {PRICE_SOURCE}")  # fmt: skip
    add("--seed", type=int, default=0)
    add("--note", default="", help="a sentence at the top of the report")
    add("--name", help="part of the result's file name")
    add("--results", type=Path, metavar="FOLDER")
    add("--resume", type=Path, metavar="FILE", help="complete this result; the servers start anew")
    add("--render", type=Path, metavar="FILE", help="write the report of this result, run nothing")
    add("--dry-run", action="store_true", help="mock servers and tiny cells; implies --allow-dirty")
    add_allow_dirty(parser)
    arguments = parser.parse_args(argv)
    if arguments.render is None:
        _check(parser, arguments)
    return arguments


def _check(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    if arguments.results is None and arguments.resume is None:
        parser.error("give --results FOLDER, the folder of the raw result")
    for name in ("repeats", "slices", "max_tokens", "kv_cache_mib"):
        if getattr(arguments, name) < 1:
            flag = f"--{name.replace('_', '-')}"
            parser.error(f"{flag} is {getattr(arguments, name)}; it must be at least 1")
    for name in ("offered_fraction", "usd_per_hour"):
        if not 0 < getattr(arguments, name) < float("inf"):
            flag = f"--{name.replace('_', '-')}"
            parser.error(f"{flag} is {getattr(arguments, name)}; it must be above 0 and finite")
    try:
        arguments.parsed_arms = parse_arms(arguments.arms)
        cells = parse_cells(arguments.cells)
    except ValueError as error:
        parser.error(str(error))
    is_small = arguments.few_requests or arguments.dry_run
    arguments.parsed_cells = tuple(map(toy, cells)) if is_small else cells
    arguments.allow_dirty = arguments.allow_dirty or arguments.dry_run
    is_default = arguments.usd_per_hour == USD_PER_HOUR
    arguments.price_source = PRICE_SOURCE if is_default else "as given"


if __name__ == "__main__":
    # The servers are stopped on the way out, which a plain SIGTERM would skip.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    main()
