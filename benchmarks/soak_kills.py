"""Kill simulated replicas 200 times under 64 streams; check that no answer is lost or changed.

    python benchmarks/soak_kills.py

Streams with known answers run continuously over four replicas. One replica at a time, drawn at
random, gets a SIGKILL and is started again. Every stream is compared with its expected answer,
token by token, and with the requests that the replicas recorded. The exit code is 1 if any
differs.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import aiohttp
from chaos.expected_requests import (
    ExpectedRequest,
    expected_request,
    find_errors,
    num_failed_over,
)
from chaos.fleet import Fleet, running_fleet
from chaos.transcript import Ending, Transcript, send_request

from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.bench.results.environment import describe_environment


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument("--tpot-ms", type=float, default=10.0)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    environment = describe_environment(sys.argv)
    result = ResultFile(
        arguments.results / f"soak-kills-{environment.date_utc[:10]}.json",
        allow_dirty=arguments.allow_dirty,
    )
    with running_fleet(arguments.replicas, "--tpot-ms", str(arguments.tpot_ms)) as fleet:
        document = asyncio.run(_run(fleet, arguments))
    document = {
        "schema_version": 1,
        "kind": "soak: kills over simulated replicas",
        "environment": asdict(environment),
        **document,
    }
    result.write(document)
    print({name: document[name] for name in document if name != "environment"})
    return 0 if not document["faults"] else 1


async def _run(fleet: Fleet, arguments: argparse.Namespace) -> dict[str, Any]:
    requests: list[ExpectedRequest] = []
    transcripts: list[Transcript] = []
    is_over = asyncio.Event()

    async def load(session: aiohttp.ClientSession, worker: int) -> None:
        number = 0
        while not is_over.is_set():
            # No number is in flight twice, so that the recorded requests identify the streams.
            request = expected_request(
                worker + arguments.streams * number, max_tokens=arguments.max_tokens
            )
            url = fleet.gateway.url + request.path
            transcript = await send_request(session, url, request.body, f"kills-{worker}-{number}")
            requests.append(request)
            transcripts.append(transcript)
            number += 1

    began_s = time.monotonic()
    connector = aiohttp.TCPConnector(limit=0, force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        workers = [asyncio.create_task(load(session, n)) for n in range(arguments.streams)]
        try:
            num_in_flight = await _kill_all(fleet, arguments.kills)
        finally:
            is_over.set()
            await asyncio.gather(*workers)
    errors = find_errors(fleet, requests, transcripts)
    endings = Counter(transcript.ending for transcript in transcripts)
    metrics = fleet.gateway.metrics()
    return {
        "duration_s": round(time.monotonic() - began_s, 1),
        "num_kills": arguments.kills,
        "num_in_flight_on_the_killed": {
            "mean": sum(num_in_flight) / len(num_in_flight),
            "min": min(num_in_flight),
            "max": max(num_in_flight),
        },
        "num_streams": len(transcripts),
        "num_streams_of_several_replicas": num_failed_over(fleet, transcripts),
        "endings": dict(endings),
        "completed_fraction": endings[Ending.COMPLETED] / len(transcripts),
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
        "faults": errors[:100],
        "num_faults": len(errors),
    }


async def _kill_all(fleet: Fleet, num_kills: int) -> list[int]:
    """Kill one replica after the other; the number of requests in flight on each."""
    drawn = random.Random(0)
    num_in_flight = []
    for _ in range(num_kills):
        await asyncio.sleep(drawn.uniform(0.2, 0.6))
        await asyncio.to_thread(fleet.gateway.wait_ready, len(fleet.mock_vllms), 60.0)
        index = drawn.randrange(len(fleet.mock_vllms))
        replicas = await asyncio.to_thread(fleet.gateway.replicas)
        num_in_flight += [r["in_flight"] for r in replicas if r["name"] == f"r{index}"]
        await asyncio.to_thread(fleet.mock_vllms[index].kill)
        await asyncio.to_thread(fleet.mock_vllms[index].start)
    return num_in_flight


if __name__ == "__main__":
    sys.exit(main())
