"""10,000 clients disconnect at random moments; measure how soon the replica aborts.

    python benchmarks/soak_disconnects.py

Clients send requests through a gateway with a queue to two simulated replicas and close their
connection after a random time: while queued, in prefill, or in the middle of the answer, streamed
and not streamed. The time of the abort comes from the replica's own record, on this machine's
clock. The exit code is 1 if an abort took longer than a second, or if a request, a queue entry or
load remains afterwards.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from chaos.fleet import IDLE, MODEL, Fleet, running_fleet, wait_until

from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.foundation.results.environment import describe_environment

ABORT_WITHIN_S = 1.0
P99_WITHIN_S = 0.1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--disconnects", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=64, help="concurrent clients")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    environment = describe_environment(sys.argv)
    result = ResultFile(
        arguments.results / f"soak-disconnects-{environment.date_utc[:10]}.json",
        allow_dirty=arguments.allow_dirty,
    )
    # 48 slots for 64 clients: a quarter of them wait in the gateway's queue.
    config = {"admission": {"max_in_flight": 24}}
    flags = ("--tpot-ms", "50", "--prefill-tokens-per-s", "2000", "--eos-every-tokens", "0")
    with running_fleet(2, *flags, config=config) as fleet:
        document = asyncio.run(_run(fleet, arguments))
    document = {
        "schema_version": 1,
        "kind": "soak: disconnects at random moments",
        "environment": asdict(environment),
        **document,
    }
    result.write(document)
    print({name: document[name] for name in document if name != "environment"})
    return 0 if document["is_passed"] else 1


async def _run(fleet: Fleet, arguments: argparse.Namespace) -> dict[str, Any]:
    left_at_s: dict[str, float] = {}
    numbers = iter(range(arguments.disconnects))
    drawn = random.Random(0)

    async def client() -> None:
        for number in numbers:
            name = f"leaves-{number}"
            left_at_s[name] = await leave_after(fleet, number, name, drawn.expovariate(1.0))

    began_s = time.monotonic()
    await asyncio.gather(*(client() for _ in range(arguments.clients)))
    duration_s = time.monotonic() - began_s
    await asyncio.sleep(2)
    num_leases_left, loads = fleet.gateway.num_in_flight, fleet.loads()
    wait_until(lambda: all(record.ending is not None for record in fleet.records()))
    records = [record for record in fleet.records() if record.request_id in left_at_s]
    delays_s = sorted(
        (record.ended_s or 0) - left_at_s[record.request_id]
        for record in records
        if record.ending == "aborted"
    )
    moments = Counter(
        "finished before"
        if record.ending == "finished"
        else "in prefill"
        if record.first_token_s is None
        else "in the middle"
        for record in records
    )
    p99_s = delays_s[len(delays_s) * 99 // 100]
    metrics = fleet.gateway.metrics()
    return {
        "is_passed": num_leases_left == 0
        and loads == [IDLE, IDLE]
        and delays_s[-1] <= ABORT_WITHIN_S
        and p99_s <= P99_WITHIN_S,
        "duration_s": round(duration_s, 1),
        "load_average_1_min_after": os.getloadavg()[0],
        "num_disconnects": len(left_at_s),
        "where": {**moments, "never at a replica": len(left_at_s) - len(records)},
        "endings": dict(Counter(record.ending for record in records)),
        "abort_delay_s": {
            "p50": delays_s[len(delays_s) // 2],
            "p99": p99_s,
            "p99.9": delays_s[len(delays_s) * 999 // 1000],
            "max": delays_s[-1],
        },
        "num_leases_left": num_leases_left,
        "queue_left": fleet.gateway.queue_length,
        "loads_left": loads,
        "outcomes": {k: v for k, v in metrics.items() if k.startswith("paceline_requests_total")},
    }


async def leave_after(fleet: Fleet, number: int, name: str, stay_s: float) -> float:
    """Send a request, read for `stay_s`, disconnect; the wall-clock time of the disconnect."""
    host, _, port = fleet.gateway.url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    request = {"prompt": f"Tell me {number}.", "max_tokens": 400, "stream": bool(number % 4)}
    body = json.dumps({"model": MODEL, "temperature": 0, **request}).encode()
    writer.write(
        f"POST /v1/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        f"x-request-id: {name}\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        + body
    )
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(stay_s):
            while await reader.read(65_536):
                pass
    left_at_s = time.time()
    writer.transport.abort()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
    return left_at_s


if __name__ == "__main__":
    sys.exit(main())
