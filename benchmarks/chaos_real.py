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
that no fault interrupted are the control.

The result is written after each fault, with `is_complete: false` before the last one. A run that is
ended by Ctrl-C or by `--minutes` leaves it, and `--resume` completes it. The exit code is 0 if the
run is complete and has passed, 130 after Ctrl-C, and else 1: if a request was lost before its first
token, a stream was truncated silently, an eligible one was not completed, an answer differs by more
than near-ties or could not be judged to its end (above 5 % of the struck streams), or if fewer
faults than ordered were injected or no stream was struck. `total.failures` has the reasons.
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
from chaos.real_engines.answers.answer_checks import AnswerChecks
from chaos.real_engines.bundled import CONFIG, MODEL, NEAR_TIE_NATS, bundled_checks, prompts
from chaos.real_engines.engine_faults import READY_WITHIN_S, EngineFault
from chaos.real_engines.fault_run import EngineLoad, FaultRun
from chaos.real_engines.request_kinds import FAST_KINDS, SLOW_KINDS
from chaos.real_engines.run_report import count, find_errors, render_progress, sum_up

from benchmarks.interruption import EXIT_INTERRUPTED, end_by_sigterm_too
from benchmarks.results_file import add_resumable, begin_or_resume
from paceline.foundation.results.environment import Environment, describe_environment

SIGNALS = {"kills": "SIGKILL", "hangs": "SIGSTOP"}
SLOW_PAUSE_S = (6.0, 12.0)


def main() -> int:
    arguments = _parser().parse_args()
    end_by_sigterm_too()
    environment = describe_environment(sys.argv)
    name = f"chaos-real-{arguments.fault}-{environment.date_utc[:10]}.json"
    result, document = begin_or_resume(
        arguments.results / name,
        arguments.resume,
        _begin(arguments, environment),
        same=("settings",),
        but_for=("num_faults",),
        allow_dirty=arguments.allow_dirty,
    )

    def keep(one: dict[str, Any]) -> None:
        rounds, num_ordered = document["rounds"], document["settings"]["num_faults"]
        rounds.append({"commit": environment.commit, **one})
        document["is_complete"] = _num_faults(document) >= num_ordered
        document["total"] = sum_up(rounds, num_ordered)
        result.write(document)
        print(f"{result.path}: {render_progress(rounds, num_ordered)}", flush=True)

    is_interrupted = False
    try:
        _run(document, keep, 60 * arguments.minutes)
    except KeyboardInterrupt:
        is_interrupted = True
    print(json.dumps(document["total"]))
    if not document["is_complete"]:
        print(_how_to_complete(result.path, document))
    if is_interrupted:
        return EXIT_INTERRUPTED
    return 0 if document["total"]["is_passed"] else 1


def _run(document: dict[str, Any], keep: Callable[[dict[str, Any]], None], seconds: float) -> None:
    settings = document["settings"]
    folder = Path(tempfile.mkdtemp(prefix="chaos-real-"))
    with start_gateway(folder, CONFIG, ready_within_s=2 * READY_WITHIN_S) as gateway:
        print(f"log: {gateway.log}", flush=True)
        load = EngineLoad(
            MODEL,
            [*FAST_KINDS, *SLOW_KINDS],
            settings["num_streams"],
            settings["max_tokens"],
            settings["slow_max_tokens"],
            SLOW_PAUSE_S,
        )
        run = FaultRun(
            gateway, load, prompts(settings["num_prompts"]), first_round=_num_faults(document)
        )
        asyncio.run(_run_rounds(run, bundled_checks(gateway.url), document, keep, seconds))


def _begin(arguments: argparse.Namespace, environment: Environment) -> dict[str, Any]:
    return {
        "schema_version": 3,
        "kind": f"chaos over real engines: {arguments.fault}",
        "environment": asdict(environment),
        "settings": {
            "signal": SIGNALS[arguments.fault],
            "num_faults": arguments.times,
            "num_streams": arguments.streams,
            "num_prompts": arguments.prompts,
            "max_tokens": arguments.max_tokens,
            "slow_max_tokens": arguments.slow_max_tokens,
            "near_tie_nats": NEAR_TIE_NATS,
        },
        "is_complete": False,
        "total": sum_up([], arguments.times),
        "rounds": [],
    }


async def _run_rounds(
    run: FaultRun,
    checks: AnswerChecks,
    document: dict[str, Any],
    keep: Callable[[dict[str, Any]], None],
    seconds: float,
) -> None:
    """Inject faults until all were or the time is over; `keep` gets a round for each fault."""
    settings = document["settings"]
    victims = list(Victim)
    deadline_s = time.monotonic() + seconds
    while (done := _num_faults(document)) < settings["num_faults"]:
        if time.monotonic() > deadline_s:
            return
        fault = EngineFault(settings["signal"], victims[done % len(victims)])
        start_s = time.monotonic()
        requests = await run.run([fault], _show)
        checked = await checks.check(requests)
        keep(
            {
                "duration_s": round(time.monotonic() - start_s, 1),
                "faults": [asdict(fault)],
                "counts": asdict(count(requests)),
                "num_compared": checked.num_compared,
                "num_sampled_judged": checked.num_sampled_judged,
                "num_tails_unjudged": checked.num_tails_unjudged,
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


def _how_to_complete(path: Path, document: dict[str, Any]) -> str:
    num_done, num_ordered = _num_faults(document), document["settings"]["num_faults"]
    if not num_done:
        return "ended before the first fault; nothing was written"
    return f"ended after {num_done} of {num_ordered} faults; --resume {path} completes them"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fault", choices=SIGNALS, default="kills")
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--streams", type=int, default=64, help="open when an engine fails")
    parser.add_argument("--prompts", type=int, default=8)
    parser.add_argument("--max-tokens", type=int, default=160)
    parser.add_argument("--slow-max-tokens", type=int, default=700)
    add_resumable(parser, minutes=180.0, unit="fault")
    return parser


if __name__ == "__main__":
    sys.exit(main())
