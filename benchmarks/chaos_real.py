"""Kill or stop real engines 50 times under 64 streams of every kind; nothing may be lost.

    python benchmarks/chaos_real.py
    python benchmarks/chaos_real.py --fault hangs
    python benchmarks/chaos_real.py --resume benchmarks/results/chaos-real-kills-….json

Greedy and sampled streams, streams of the responses route, with a tool call and with a JSON schema
run against `paceline serve --replicas 2` with the bundled pair; some clients read slowly. The
replica with more requests gets a SIGKILL, or a SIGSTOP until the gateway restarts it: its process
group, its engine core and its API server, in turn. While it starts again, two streams run.

Greedy answers are compared with reference answers, token by token; where they differ, an engine
computes how probable every token was. Sampled tokens must be among the most probable ones. Answers
that no fault interrupted are the control. The exit code is 1 if a request was lost before its first
token, a stream was truncated silently, an eligible one was not completed, or an answer differs by
more than near-ties.

The result is written after each round of faults, and `--minutes` ends the run after a round, so
that it can be resumed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from chaos.engines import Victim
from chaos.gateway_process import start_gateway
from chaos.real_engines.answer_checks import AnswerChecks
from chaos.real_engines.bundled import CONFIG, MODEL, NEAR_TIE_NATS, bundled_checks, prompts
from chaos.real_engines.engine_faults import READY_WITHIN_S, EngineFault
from chaos.real_engines.fault_run import EngineLoad, FaultRun
from chaos.real_engines.request_kinds import FAST_KINDS, SLOW_KINDS
from chaos.real_engines.run_report import add_up, count, find_errors

from benchmarks.results_file import ResultFile, add_allow_dirty, read_result
from paceline.bench.results.environment import Environment, describe_environment

SIGNALS = {"kills": "SIGKILL", "hangs": "SIGSTOP"}
SLOW_PAUSE_S = (6.0, 12.0)


def main() -> int:
    arguments = _parser().parse_args()
    environment = describe_environment(sys.argv)
    if arguments.resume:
        document = read_result(arguments.resume)
        result = ResultFile.resume(arguments.resume, allow_dirty=arguments.allow_dirty)
    else:
        document = _begin(arguments, environment)
        name = f"chaos-real-{arguments.fault}-{environment.date_utc[:10]}.json"
        result = ResultFile(arguments.results / name, allow_dirty=arguments.allow_dirty)

    def keep(one: dict[str, Any]) -> None:
        document["rounds"].append({"commit": environment.commit, **one})
        document["total"] = _total(document["rounds"])
        result.write(document)
        print(f"{result.path}: {json.dumps(document['total'])}", flush=True)

    folder = Path(tempfile.mkdtemp(prefix="chaos-real-"))
    with start_gateway(folder, CONFIG, ready_within_s=2 * READY_WITHIN_S) as gateway:
        print(f"log: {gateway.log}", flush=True)
        settings = document["settings"]
        load = EngineLoad(
            MODEL,
            [*FAST_KINDS, *SLOW_KINDS],
            settings["num_streams"],
            settings["max_tokens"],
            settings["slow_max_tokens"],
            SLOW_PAUSE_S,
        )
        run = FaultRun(gateway, load, prompts(settings["num_prompts"]), seed=_num_faults(document))
        asyncio.run(
            _run_rounds(run, bundled_checks(gateway.url), document, keep, 60 * arguments.minutes)
        )
    return 0 if document["total"]["is_passed"] else 1


def _begin(arguments: argparse.Namespace, environment: Environment) -> dict[str, Any]:
    return {
        "schema_version": 2,
        "kind": f"chaos over real engines: {arguments.fault}",
        "environment": asdict(environment),
        "settings": {
            "signal": SIGNALS[arguments.fault],
            "num_faults": arguments.times,
            "faults_per_round": arguments.per_round,
            "num_streams": arguments.streams,
            "num_prompts": arguments.prompts,
            "max_tokens": arguments.max_tokens,
            "slow_max_tokens": arguments.slow_max_tokens,
            "near_tie_nats": NEAR_TIE_NATS,
        },
        "total": {},
        "rounds": [],
    }


async def _run_rounds(
    run: FaultRun,
    checks: AnswerChecks,
    document: dict[str, Any],
    keep: Callable[[dict[str, Any]], None],
    seconds: float,
) -> None:
    """Run rounds until all faults were injected or the time is over; `keep` gets each round."""
    settings = document["settings"]
    victims = list(Victim)
    deadline_s = time.monotonic() + seconds
    while (done := _num_faults(document)) < settings["num_faults"]:
        if time.monotonic() > deadline_s:
            return
        num_next = min(settings["faults_per_round"], settings["num_faults"] - done)
        faults = [
            EngineFault(settings["signal"], victims[number % len(victims)])
            for number in range(done, done + num_next)
        ]
        start_s = time.monotonic()
        requests = await run.run(faults, _show)
        checked = await checks.check(requests)
        keep(
            {
                "duration_s": round(time.monotonic() - start_s, 1),
                "faults": [asdict(fault) for fault in faults],
                "counts": asdict(count(requests)),
                "num_compared": checked.num_compared,
                "num_sampled_judged": checked.num_sampled_judged,
                "errors": find_errors(requests),
                "differences": checked.differences,
            }
        )


def _show(fault: EngineFault) -> None:
    print(
        f"{time.strftime('%H:%M:%S')} {fault.signal} to the {fault.victim} of {fault.replica}: "
        f"{fault.num_in_flight} requests, down after {fault.down_after_s:.1f} s, "
        f"ready after {fault.ready_after_s:.1f} s",
        flush=True,
    )


def _num_faults(document: dict[str, Any]) -> int:
    return sum(len(one["faults"]) for one in document["rounds"])


def _total(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """All rounds together."""
    differences = [one for each in rounds for one in each["differences"]]
    errors = [error for one in rounds for error in one["errors"]]
    num_wrong = sum(one["fault"] is not None for one in differences)
    return {
        "is_passed": not errors and not num_wrong,
        "num_faults_injected": sum(len(one["faults"]) for one in rounds),
        "num_errors": len(errors),
        "num_near_ties": len(differences) - num_wrong,
        "num_wrong_answers": num_wrong,
        "num_compared": sum(one["num_compared"] for one in rounds),
        "num_sampled_judged": sum(one["num_sampled_judged"] for one in rounds),
        **add_up([one["counts"] for one in rounds]),
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fault", choices=SIGNALS, default="kills")
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument(
        "--per-round", type=int, default=5, help="faults before a result is written"
    )
    parser.add_argument("--minutes", type=float, default=180.0, help="no round begins after this")
    parser.add_argument("--streams", type=int, default=64, help="open when an engine fails")
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=160)
    parser.add_argument("--slow-max-tokens", type=int, default=700)
    parser.add_argument("--resume", type=Path, help="the result of an earlier run to continue")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    add_allow_dirty(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
