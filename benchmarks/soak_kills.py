"""Kill or stop mock replicas 200 times under 64 streams of every kind; nothing may be lost.

    python benchmarks/soak_kills.py
    python benchmarks/soak_kills.py --fault hangs

Greedy and sampled streams, streams of the responses route, with tools and with a JSON schema run
continuously over four replicas; some clients read slowly. Replicas drawn at random get a SIGKILL
and are started again, or a SIGSTOP for 2 s. Every stream is compared with its known answer. One
that the gateway cannot continue (see docs/gateway.md) may end with an error event after its first
token; its text must be the beginning of its answer. So may two that lost more replicas than a
stream is continued. The exit code is 1 if anything differs, if fewer faults than ordered were
injected, or if they struck no stream.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from chaos.attempt_log import read_failed_attempts
from chaos.fleet import Fleet, running_fleet
from chaos.mixed_load.load_report import count_by_kind, find_run_failures, find_stream_errors
from chaos.mixed_load.replica_faults import kill_replicas, stop_replicas
from chaos.mixed_load.stream_load import LoadShape, run_streams
from chaos.transcript import Ending

from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.bench.results.environment import describe_environment

FAULTS = {"kills": kill_replicas, "hangs": stop_replicas}
SLOW_MAX_TOKENS = 1500
"""More than fit into the buffers between replica and client, some 800."""
SLOW_PAUSE_S = (6.0, 12.0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--fault", choices=FAULTS, default="kills")
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument("--tpot-ms", type=float, default=10.0)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    environment = describe_environment(sys.argv)
    result = ResultFile(
        arguments.results / f"soak-{arguments.fault}-{environment.date_utc[:10]}.json",
        allow_dirty=arguments.allow_dirty,
    )
    with running_fleet(arguments.replicas, "--tpot-ms", str(arguments.tpot_ms)) as fleet:
        document = asyncio.run(_run(fleet, arguments))
    document = {
        "schema_version": 1,
        "kind": f"soak: {arguments.fault} of mock replicas",
        "environment": asdict(environment),
        **document,
    }
    result.write(document)
    print({name: document[name] for name in document if name != "environment"})
    return 0 if document["is_passed"] else 1


async def _run(fleet: Fleet, arguments: argparse.Namespace) -> dict[str, Any]:
    shape = LoadShape(
        arguments.streams, arguments.max_tokens, SLOW_MAX_TOKENS, slow_pause_s=SLOW_PAUSE_S
    )
    began_s = time.monotonic()
    injecting = asyncio.ensure_future(FAULTS[arguments.fault](fleet, arguments.times))
    streams = await run_streams(fleet, shape, injecting)
    duration_s = time.monotonic() - began_s
    errors = find_stream_errors(fleet, streams)
    transcripts = [stream.transcript for stream in streams]
    endings = Counter(transcript.ending for transcript in transcripts)
    metrics = fleet.gateway.metrics()
    failed = read_failed_attempts(fleet.gateway.log)
    kinds = count_by_kind(fleet, streams)
    failures = find_run_failures(
        num_ordered=arguments.times,
        num_injected=injecting.result(),
        num_struck=sum(one["num_interrupted"] for one in kinds.values()),
        num_errors=len(errors),
        num_beyond_limit=sum(one["num_beyond_limit"] for one in kinds.values()),
    )
    return {
        "is_passed": not failures,
        "failures": failures,
        "duration_s": round(duration_s, 1),
        "fault": arguments.fault,
        "num_faults_injected": injecting.result(),
        "num_streams": len(transcripts),
        "kinds": kinds,
        "endings": dict(endings),
        "num_lost_before_first_token": sum(
            transcript.ending is not Ending.COMPLETED and not transcript.has_first_token
            for transcript in transcripts
        ),
        "num_silent_truncations": endings[Ending.TRUNCATED],
        "longest_silence_s": max(transcript.longest_silence_s for transcript in transcripts),
        "num_leases_left": fleet.gateway.num_in_flight,
        "continuations": {
            k: v for k, v in metrics.items() if k.startswith("paceline_continuations_total")
        },
        "retries": {k: v for k, v in metrics.items() if k.startswith("paceline_retries_total")},
        "steps_after_failures": Counter(
            f"{one.step}, {one.reason}" for attempts in failed.values() for one in attempts
        ),
        "failed_attempts_of_streams_given_up": [
            [f"{one.replica}: {one.outcome}; {one.step}" for one in attempts]
            for attempts in failed.values()
            if attempts[-1].step == "give_up" and attempts[-1].reason != "not_continuable"
        ],
        "faults": errors[:100],
        "num_faults": len(errors),
    }


if __name__ == "__main__":
    sys.exit(main())
