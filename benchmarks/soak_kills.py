"""Kill or stop mock replicas 200 times under 64 streams of every kind; nothing may be lost.

    python benchmarks/soak_kills.py
    python benchmarks/soak_kills.py --fault hangs
    python benchmarks/soak_kills.py --control
    python benchmarks/soak_kills.py --resume benchmarks/results/soak-kills-….json

Greedy and sampled streams, streams of the responses route, with tools and with a JSON schema run
continuously over four replicas; some clients read slowly. One replica writes plain events; the
others write them as other servers and proxies do: decorated, cut at any byte, with other ends and
labels. A second tenant sends some 25 requests a second that an engine answers with a 500, or with
an error after some tokens. Replicas drawn at random get a SIGKILL and are started again, or a
SIGSTOP until they are out of service, for 2 s or more.

Every stream is compared with its known answer. One that cannot be continued (see docs/gateway.md)
may end with an error event after its first token if its replica was struck, any other one if two
of its replicas were; its text must be the beginning of its answer. The poison must get its error.

With `--control`, all replicas are plain and there is no poison: what is found then is not due to
either.

The result is written after each fault, with `is_complete: false` before the last one. Streams are
compared after each round of 20 faults; `--resume` completes a run that was ended, from the last
round on. The exit code is 0 if the run is complete and has passed, 130 after Ctrl-C, and else 1;
`total.failures` has the reasons and `total.errors` each error: the stream, the replicas that it ran
on with their styles, those struck marked with `!`, and what was lost, doubled, changed or cut.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from chaos.attempt_log import read_failed_attempts
from chaos.fleet import Fleet
from chaos.mixed_load.decorated_fleet import (
    POISONER,
    REPLICA_STYLES,
    running_decorated_fleet,
)
from chaos.mixed_load.load_report import count_by_kind, count_by_style, find_stream_errors
from chaos.mixed_load.poison import NUM_SENDERS, poisoning
from chaos.mixed_load.replica_faults import kill_replicas, stop_replicas
from chaos.mixed_load.soak_report import sum_up
from chaos.mixed_load.stream_load import LoadedStream, LoadShape, run_streams
from chaos.mixed_load.strikes import Strike
from chaos.transcript import Ending

from benchmarks.interruption import EXIT_INTERRUPTED, end_by_sigterm_too
from benchmarks.results_file import add_resumable, begin_or_resume
from paceline.foundation.results.environment import Environment, describe_environment

FAULTS = {"kills": kill_replicas, "hangs": stop_replicas}
SLOW_MAX_TOKENS = 1500
"""More than fit into the buffers between replica and client, some 800."""
SLOW_PAUSE_S = (6.0, 12.0)
FAULTS_PER_ROUND = 20


def main() -> int:
    arguments = _parser().parse_args()
    end_by_sigterm_too()
    environment = describe_environment(sys.argv)
    result, document = begin_or_resume(
        arguments.results / f"soak-{arguments.fault}-{environment.date_utc[:10]}.json",
        arguments.resume,
        _begin(arguments, environment),
        same=("settings",),
        but_for=("num_faults",),
        allow_dirty=arguments.allow_dirty,
    )

    def write(running: Mapping[str, Any] | None) -> None:
        document["running"] = running
        document["total"] = sum_up(document["rounds"], document["settings"]["num_faults"])
        document["is_complete"] = not running and not _num_left(document)
        result.write(document)

    is_interrupted = False
    try:
        _run(document, write, 60 * arguments.minutes)
    except KeyboardInterrupt:
        is_interrupted = True
    total = document["total"]
    print(json.dumps({name: total[name] for name in total if name != "kinds"}, indent=1))
    if not document["is_complete"]:
        print(f"incomplete; --resume {result.path} completes it")
    if is_interrupted:
        return EXIT_INTERRUPTED
    return 0 if document["is_complete"] and total["is_passed"] else 1


def _run(
    document: dict[str, Any], write: Callable[[Mapping[str, Any] | None], None], seconds: float
) -> None:
    settings = document["settings"]
    deadline_s = time.monotonic() + seconds
    tpot_ms = str(settings["tpot_ms"])
    with running_decorated_fleet(
        settings["num_replicas"], "--tpot-ms", tpot_ms, styles=settings["replica_styles"]
    ) as fleet:
        while num_left := _num_left(document):
            if time.monotonic() > deadline_s:
                return
            num_faults = min(FAULTS_PER_ROUND, num_left)
            one = asyncio.run(
                _run_round(fleet, settings, len(document["rounds"]), num_faults, write)
            )
            document["rounds"].append(one)
            write(None)
            num_done, num_ordered = (
                settings["num_faults"] - _num_left(document),
                settings["num_faults"],
            )
            print(
                f"{num_done} of {num_ordered} faults, {len(one['errors'])} errors in the last "
                f"{num_faults}, {one['duration_s']:.0f} s",
                flush=True,
            )
            for error in one["errors"][:5]:
                print(f"  {error}", flush=True)


async def _run_round(
    fleet: Fleet,
    settings: Mapping[str, Any],
    number: int,
    num_faults: int,
    write: Callable[[Mapping[str, Any] | None], None],
) -> dict[str, Any]:
    """Inject faults under load, wait for the last streams, and compare all of them."""
    name = f"round-{number}"
    shape = LoadShape(
        settings["num_streams"], settings["max_tokens"], SLOW_MAX_TOKENS, SLOW_PAUSE_S
    )
    streams: list[LoadedStream] = []
    strikes: list[Strike] = []

    def keep(strike: Strike) -> None:
        strikes.append(strike)
        if strike.left:
            print(f"r{strike.replica} stayed in service: {strike.left}", flush=True)
        write({"strikes": [asdict(one) for one in strikes], "endings": _endings(streams)})

    began_s = time.monotonic()
    async with poisoning(
        *(fleet, fleet.keys[POISONER], settings["num_poison_senders"]), name=f"poison-{number}"
    ) as poison:
        injecting = FAULTS[settings["fault"]](fleet, num_faults, keep, seed=number)
        await run_streams(fleet, shape, injecting, name=name, streams=streams)
    errors = find_stream_errors(fleet, streams, strikes)
    transcripts = [stream.transcript for stream in streams]
    failed = read_failed_attempts(fleet.gateway.log)
    own = [failed[one.request_id] for one in transcripts if one.request_id in failed]
    return {
        "duration_s": round(time.monotonic() - began_s, 1),
        "strikes": [asdict(one) for one in strikes],
        "num_streams": len(streams),
        "endings": _endings(streams),
        "kinds": count_by_kind(fleet, streams, strikes),
        "styles": count_by_style(fleet, streams, strikes),
        "num_lost_before_first_token": sum(
            one.ending is not Ending.COMPLETED and not one.has_first_token for one in transcripts
        ),
        "longest_silence_s": max(one.longest_silence_s for one in transcripts),
        "num_leases_left": fleet.gateway.num_in_flight,
        "poison": asdict(poison),
        "steps": Counter(f"{one.step}, {one.reason}" for attempts in own for one in attempts),
        "errors": [asdict(error) for error in errors],
    }


def _endings(streams: Sequence[LoadedStream]) -> dict[str, int]:
    return dict(Counter(stream.transcript.ending for stream in streams))


def _num_left(document: Mapping[str, Any]) -> int:
    num_done = sum(len(one["strikes"]) for one in document["rounds"])
    return max(0, int(document["settings"]["num_faults"]) - num_done)


def _begin(arguments: argparse.Namespace, environment: Environment) -> dict[str, Any]:
    return {
        "schema_version": 2,
        "kind": f"soak: {arguments.fault} of mock replicas",
        "environment": asdict(environment),
        "settings": {
            "fault": arguments.fault,
            "num_faults": arguments.times,
            "num_streams": arguments.streams,
            "num_replicas": arguments.replicas,
            "max_tokens": arguments.max_tokens,
            "tpot_ms": arguments.tpot_ms,
            "replica_styles": [""] if arguments.control else list(REPLICA_STYLES),
            "num_poison_senders": 0 if arguments.control else NUM_SENDERS,
        },
        "is_complete": False,
        "total": {},
        "running": None,
        "rounds": [],
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fault", choices=FAULTS, default="kills")
    parser.add_argument("--control", action="store_true", help="plain replicas, no poison")
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument("--tpot-ms", type=float, default=10.0)
    add_resumable(parser, minutes=180.0, unit="round")
    return parser


if __name__ == "__main__":
    sys.exit(main())
