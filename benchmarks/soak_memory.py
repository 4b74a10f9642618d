"""Measure the gateway's memory over a million simulated requests, 10 % abandoned and 5 % invalid.

    python benchmarks/soak_memory.py
    python benchmarks/soak_memory.py --requests 1000000 --max-minutes 30

The gateway, the replicas and this load generator are separate processes. After every batch the
load pauses until nothing is in flight; then the script reads resident memory, file descriptors and
asyncio tasks. The growth is the slope over the batches after the first fifth, in bytes per 100,000
requests. The result is written after every batch, so an interrupted run also leaves one. The exit
code is 1 if memory grows by more than 1 MiB per 100,000 requests, or descriptors or tasks by more
than 8.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from chaos.fleet import MODEL, Fleet, running_fleet, wait_until

from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.foundation.results.environment import describe_environment

MAX_GROWTH_BYTES = 1024 * 1024
"""Per 100,000 requests."""
MAX_MORE_HANDLES = 8
"""Descriptors or tasks; monitoring the replicas opens and closes some. Chosen empirically."""
_ABANDONED, _BAD = 0.10, 0.05
_INVALID_BODIES = (
    b'{"model":"known","prompt":"x","max_tokens":-1}',
    b'{"model":"known","prompt":"x","guided_json":{}}',
    b'{"model":"none","prompt":"x"}',
    b'{"model":"known","prompt":"x"',
    b'{"model":"known","model":"known","prompt":"x"}',
    b"[]",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=50)
    parser.add_argument("--clients", type=int, default=32, help="concurrent clients")
    parser.add_argument("--max-minutes", type=float, default=60.0)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    environment = describe_environment(sys.argv)
    result = ResultFile(
        arguments.results / f"soak-memory-{environment.date_utc[:10]}.json",
        allow_dirty=arguments.allow_dirty,
    )
    document: dict[str, Any] = {}
    with running_fleet(2, "--tpot-ms", "0.5", keeps_request_log=False) as fleet:
        for measured in _run(fleet, arguments):
            document = {
                "schema_version": 1,
                "kind": "soak: memory over many requests",
                "environment": asdict(environment),
                "load_average_1_min": round(_load_average(), 1),
                **measured,
            }
            result.write(document)
    shown = ("num_requests", "requests_per_s", "growth", "is_passed", "answers")
    print({name: document[name] for name in shown}, f"written: {result.path}")
    return 0 if document["is_passed"] else 1


def _run(fleet: Fleet, arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    answers: Counter[str] = Counter()
    samples: list[dict[str, float]] = []
    began_s = time.monotonic()
    per_batch = arguments.requests // arguments.batches
    for batch in range(arguments.batches):
        asyncio.run(_ask_batch(fleet, per_batch, arguments.clients, batch, answers))
        wait_until(lambda: fleet.gateway.num_in_flight == 0, within_s=30)
        time.sleep(0.3)
        samples.append(
            {
                "num_requests": (batch + 1) * per_batch,
                "at_s": round(time.monotonic() - began_s, 1),
                "rss_bytes": fleet.gateway.rss_bytes(),
                "num_fds": fleet.gateway.num_fds(),
                "num_tasks": fleet.gateway.num_tasks(),
            }
        )
        after_warm_up = samples[len(samples) // 5 :]
        growth = _growth(after_warm_up) if len(after_warm_up) > 2 else None
        yield {
            "is_passed": growth is not None
            and growth["rss_bytes_per_100k"] <= MAX_GROWTH_BYTES
            and max(growth["num_fds"], growth["num_tasks"]) <= MAX_MORE_HANDLES,
            "num_requests": samples[-1]["num_requests"],
            "requests_per_s": round(samples[-1]["num_requests"] / samples[-1]["at_s"]),
            "growth": growth,
            "answers": dict(answers),
            "samples": samples,
        }
        if time.monotonic() - began_s > 60 * arguments.max_minutes:
            break


def _growth(samples: list[dict[str, float]]) -> dict[str, float]:
    line = statistics.linear_regression(
        [sample["num_requests"] for sample in samples], [sample["rss_bytes"] for sample in samples]
    )
    return {
        "rss_bytes_per_100k": round(line.slope * 100_000),
        "num_fds": samples[-1]["num_fds"] - samples[0]["num_fds"],
        "num_tasks": samples[-1]["num_tasks"] - samples[0]["num_tasks"],
    }


async def _ask_batch(
    fleet: Fleet, num_requests: int, num_clients: int, batch: int, answers: Counter[str]
) -> None:
    host, _, port = fleet.gateway.url.removeprefix("http://").partition(":")
    numbers = itertools.count()

    async def client(client_index: int) -> None:
        drawn = random.Random(1_000_003 * batch + client_index)
        reader, writer = await asyncio.open_connection(host, int(port))
        while next(numbers) < num_requests:
            draw = drawn.random()
            if draw < _ABANDONED:
                writer.write(_request(_good_body(drawn, max_tokens=200)))
                await asyncio.sleep(drawn.uniform(0, 0.02))
                writer.transport.abort()
                answers["left"] += 1
            elif draw < _ABANDONED + _BAD:
                writer.write(_request(drawn.choice(_INVALID_BODIES)))
                answers[await _read_answer(reader)] += 1
            else:
                writer.write(_request(_good_body(drawn, max_tokens=4)))
                answers[await _read_answer(reader)] += 1
            if writer.transport.is_closing() or reader.at_eof():
                reader, writer = await asyncio.open_connection(host, int(port))
        writer.transport.abort()

    await asyncio.gather(*(client(index) for index in range(num_clients)))


def _good_body(drawn: random.Random, *, max_tokens: int) -> bytes:
    """A request with a new prompt, so that state kept per prompt shows as growth."""
    body = {"model": MODEL, "prompt": f"x{drawn.getrandbits(64)}", "max_tokens": max_tokens}
    return json.dumps({**body, "temperature": 0, "stream": drawn.random() < 0.7}).encode()


def _request(body: bytes) -> bytes:
    return (
        b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n%b" % (len(body), body)
    )


async def _read_answer(reader: asyncio.StreamReader) -> str:
    """Read one answer to its end; its status, or `cut` for a stream without [DONE]."""
    head = await reader.readuntil(b"\r\n\r\n")
    status = head.split(b" ", 2)[1].decode()
    lower = head.lower()
    if b"transfer-encoding: chunked" in lower:
        body = await reader.readuntil(b"0\r\n\r\n")
        return status if b"data: [DONE]\n\n" in body else "cut"
    length = int(lower.partition(b"content-length: ")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)
    return status


def _load_average() -> float:
    return float(Path("/proc/loadavg").read_text().split()[0])


if __name__ == "__main__":
    sys.exit(main())
