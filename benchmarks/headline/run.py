"""Compare naive serving, llama.cpp, plain vLLM, static speculation and Paceline on a chat model.

All servers of a group serve SmolLM2-135M-Instruct. They stay alive during the run and answer the
same requests cell by cell in turn, so that drift and other load of the machine weigh on all alike.
`vllm#again` and `vllm+layout#again` are the same servers a second time; their ratio to the first is
the noise. `arms.py` and `cells.py` describe the servers and the loads, `published.py` the figures
to compare with.

    VENV=.venv CLIENTS=runs NATIVE=1 scripts/install-llamacpp.sh
    python benchmarks/headline/run.py --results benchmarks/results --name servers
    python benchmarks/headline/run.py --results benchmarks/results --name speculation \\
        --group speculation
    python benchmarks/headline/run.py --resume FILE.json.gz ...
    python benchmarks/headline/run.py --render FILE.json.gz
    python benchmarks/headline/run.py --dry-run --results /tmp

The first command builds llama.cpp's server. Quantized weights and their verdicts are made in
`--weights` if they are missing. The result is saved after every repeat, with a report and plots
beside it. `--dry-run` uses mock servers and tiny cells: it checks the course of a run, and its
figures mean nothing.
"""

from __future__ import annotations

import argparse
import functools
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.headline.arms import (
    GROUPS,
    Arm,
    default_arms,
    memory_bytes,
    parse_arms,
    server_plan,
)
from benchmarks.headline.bandwidth import read_bytes
from benchmarks.headline.campaign import run_campaign, warm_up
from benchmarks.headline.cells import (
    DEFAULT_CELLS,
    Cell,
    parse_cells,
    slice_load,
    toy,
)
from benchmarks.headline.dry_run import mock_plan
from benchmarks.headline.files import write_report
from benchmarks.headline.http_arm import HttpArm
from benchmarks.headline.turns import Slice, runs_cell
from benchmarks.headline.weights import MODEL, prepare
from benchmarks.results_file import ResultFile, add_allow_dirty, read_result
from benchmarks.servers import proportional_memory_bytes, running_servers, watch_idle
from paceline.foundation.named_models import drafter_folder
from paceline.foundation.results.environment import describe_environment

PRICE_SOURCE = "AWS m7i.large, on demand, N. Virginia, Linux, 2025-07-01"
USD_PER_HOUR = 0.1008
_TIMEOUT_S = 900.0
"""Of a request; the last of a queue at the naive server waits for all before it."""


def build_plan(arguments: argparse.Namespace) -> dict[str, Any]:
    """All that determines what is run; a resumed run must have an equal plan."""
    arms, cells = arguments.parsed_arms, arguments.parsed_cells
    return {
        "draft": Path(drafter_folder(MODEL)).name,
        "arms": [arm.name for arm in arms],
        "cells": [cell.name for cell in cells],
        "skipped": [
            [arm.name, cell.name] for arm in arms for cell in cells if not runs_cell(arm, cell)
        ],
        "requests": {cell.name: cell.num_requests for cell in cells},
        "repeats": arguments.repeats,
        "max_tokens": max(cell.max_tokens for cell in cells),
        "kv_cache_mib": arguments.kv_cache_mib,
        "seed": arguments.seed,
        "usd_per_hour": arguments.usd_per_hour,
        "price_source": arguments.price_source,
        "note": "Dry run with mock servers: the figures mean nothing." if arguments.dry_run
        else arguments.note,
    }  # fmt: skip


def run(arguments: argparse.Namespace) -> Path:
    """Run the plan; the path of the raw result, which is saved after every repeat."""
    plan = build_plan(arguments)
    environment = describe_environment(sys.argv)
    document: dict[str, Any] = {
        "schema_version": 2,
        "kind": "headline",
        "plan": plan,
        "environment": asdict(environment),
        "quality": {},
        "read_bytes": {},
        "idle": {},
        "bandwidth_bytes_per_s": {},
        "runs": [],
    }
    if arguments.resume:
        result = ResultFile.resume(arguments.resume, allow_dirty=arguments.allow_dirty)
        document = resumed(read_result(arguments.resume), document)
    else:
        stem = "headline" + (f"-{arguments.name}" if arguments.name else "")
        path = arguments.results / f"{stem}-{environment.date_utc[:10]}.json.gz"
        result = ResultFile(path, allow_dirty=arguments.allow_dirty)
    if not _is_complete(document):
        _measure(arguments, document, result)
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


def _is_complete(document: Mapping[str, Any]) -> bool:
    plan = document["plan"]
    num_turns = len(plan["arms"]) * len(plan["cells"]) - len(plan["skipped"])
    return bool(len(document["runs"]) == num_turns * plan["repeats"])


def _measure(arguments: argparse.Namespace, document: dict[str, Any], result: ResultFile) -> None:
    """Start the servers and run what the document lacks."""
    arms, cells = arguments.parsed_arms, arguments.parsed_cells
    if arguments.dry_run:
        plans = {arm.name: mock_plan(arm) for arm in arms}
    else:
        kv_cache_bytes = arguments.kv_cache_mib << 20
        _check_memory(arms, kv_cache_bytes)
        model, document["quality"] = prepare(arms, arguments.weights)
        document["read_bytes"] = {arm.name: read_bytes(arm, model) for arm in arms}
        plans = {arm.name: server_plan(arm, model, kv_cache_bytes) for arm in arms}

    def save() -> None:
        result.write(document)
        write_report(result.path, document)
        print(f"saved: {result.path}", flush=True)

    with (
        tempfile.TemporaryDirectory(prefix="headline-") as logs,
        running_servers({"servers": plans}, Path(logs)) as servers,
    ):
        runners = {
            arm.name: functools.partial(
                _run_slice, HttpArm(arm, servers[arm.name].url, _TIMEOUT_S), cells, arguments.seed
            )
            for arm in arms
        }
        warm_up(arms, cells, runners)
        document["idle"] = {
            name: {"cores": cores, "memory_mib": proportional_memory_bytes(servers[name]) >> 20}
            for name, cores in watch_idle(list(servers.values())).items()
        }
        print(f"all servers idle: {document['idle']}", flush=True)
        run_campaign(document, arms, cells, runners, save)


def _check_memory(arms: Sequence[Arm], kv_cache_bytes: int) -> None:
    """SystemExit if the servers do not fit: they would be killed in the middle of the run."""
    needed = sum(memory_bytes(arm, kv_cache_bytes) for arm in arms)
    available = psutil.virtual_memory().available
    if needed > available:
        raise SystemExit(
            f"the {len(arms)} servers need about {needed / 2**30:.0f} GiB, and "
            f"{available / 2**30:.0f} GiB are free; name fewer with --arms"
        )


def _run_slice(server: HttpArm, cells: Sequence[Cell], seed: int, part: Slice) -> dict[str, Any]:
    return server.run(lambda model: slice_load(part.cell, cells, part.repeat, model, seed))


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
    add("--group", choices=GROUPS, default=GROUPS[0],
        help="Paceline beside other servers, or beside static draft lengths")  # fmt: skip
    add("--arms", nargs="+", metavar="ARM", help="in place of a group; arms.py describes them")
    add("--cells", nargs="+", default=list(DEFAULT_CELLS), metavar="CELL",
        help="such as chat-1 or json-sampled-64; cells.py describes them")  # fmt: skip
    add("--repeats", type=int, default=4, metavar="N")
    add("--few-requests", action="store_true",
        help="as few requests as each load allows, and short answers")  # fmt: skip
    add("--kv-cache-mib", type=int, default=256, metavar="N", help="of every server but naive")
    add("--weights", type=Path, default=Path("runs"), metavar="FOLDER", help="of quantized weights")
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
    for name in ("repeats", "kv_cache_mib"):
        if getattr(arguments, name) < 1:
            flag = f"--{name.replace('_', '-')}"
            parser.error(f"{flag} is {getattr(arguments, name)}; it must be at least 1")
    if not 0 < arguments.usd_per_hour < float("inf"):
        parser.error(f"--usd-per-hour is {arguments.usd_per_hour}; it must be above 0 and finite")
    try:
        arguments.parsed_arms = parse_arms(arguments.arms or default_arms(arguments.group))
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
