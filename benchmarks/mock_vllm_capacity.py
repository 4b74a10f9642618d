"""Measure how many streams and tokens per second one mock vLLM server delivers on one core.

One `paceline mock-vllm` is pinned to one core; a client on the other cores only reads and counts.
Each load runs several times. All streams start together and have the same length.

    python benchmarks/mock_vllm_capacity.py --results benchmarks/results

The lateness of a stream is the time from its first to its last token minus (number of tokens - 1)
times the time per token. A benchmark would wrongly charge this lateness to a gateway in front of
the server. CPU per token is the server's own user and system time, so it also holds on a machine
with other load.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import psutil
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.foundation.results.environment import describe_environment
from paceline.testing.mock_vllm import SpawnedMockVllm, spawn_mock_vllm

LOADS = ((256, 20.0), (1024, 20.0), (1024, 40.0), (2048, 40.0), (4096, 100.0), (512, 10.0))
"""(streams, milliseconds per token): 12,800 to 51,200 tokens per second requested."""
SERVER_CORE = 0
RUN_S = 6.0


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one load."""

    num_streams: int
    tpot_ms: float
    asked_tokens_per_s: float
    tokens_per_s: float
    server_cpu_us_per_token: float
    server_cpu_fraction: float
    late_ms_p50: float
    late_ms_p99: float
    num_broken: int
    load_average_1min: float


class _Reader(asyncio.Protocol):
    """Sends one request and records when events arrive."""

    def __init__(self, request: bytes, ended: asyncio.Future[None]) -> None:
        self._request = request
        self._ended = ended
        self.num_events = 0
        self.first_s = self.last_s = 0.0
        self.saw_done = self.is_complete = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        count = data.count(b"data: {")
        if count:
            self.last_s = time.monotonic()
            self.first_s = self.first_s or self.last_s
            self.num_events += count
        self.saw_done = self.saw_done or b"data: [DONE]\n\n" in data
        if self.saw_done and data.endswith(b"0\r\n\r\n"):
            self.is_complete = True
            self._transport.close()

    def connection_lost(self, _: Exception | None) -> None:
        if not self._ended.done():
            self._ended.set_result(None)


async def run_once(server: SpawnedMockVllm, num_streams: int, tpot_ms: float) -> Run:
    """Start all streams at once and await the end of all."""
    num_tokens = round(RUN_S * 1000 / tpot_ms)
    body = json.dumps(
        {
            "model": "mock_vllm",
            "prompt": "a",
            "max_tokens": num_tokens,
            "temperature": 0,
            "stream": True,
            "return_token_ids": True,
        }
    ).encode()
    host = urlsplit(server.url).netloc
    request = (
        f"POST /v1/completions HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    ).encode() + body
    loop = asyncio.get_running_loop()
    process = psutil.Process(server.pid)
    cpu_before = sum(process.cpu_times()[:2])
    begun_s = time.monotonic()
    ended = [loop.create_future() for _ in range(num_streams)]
    readers = [
        (
            await loop.create_connection(
                lambda future=future: _Reader(request, future), "127.0.0.1", server.port
            )
        )[1]
        for future in ended
    ]
    async with asyncio.timeout(RUN_S * 10):
        await asyncio.gather(*ended)
    took_s = time.monotonic() - begun_s
    cpu_s = sum(process.cpu_times()[:2]) - cpu_before
    total = sum(reader.num_events for reader in readers)
    ideal_s = (num_tokens - 1) * tpot_ms / 1000
    late_ms = sorted((reader.last_s - reader.first_s - ideal_s) * 1000 for reader in readers)
    # The median time from first to last token: excludes the ramps at both ends
    steady_s = statistics.median(r.last_s - r.first_s for r in readers)
    return Run(
        num_streams=num_streams,
        tpot_ms=tpot_ms,
        asked_tokens_per_s=num_streams * 1000 / tpot_ms,
        tokens_per_s=num_streams * (num_tokens - 1) / steady_s,
        server_cpu_us_per_token=cpu_s / total * 1e6,
        server_cpu_fraction=cpu_s / took_s,
        late_ms_p50=late_ms[len(late_ms) // 2],
        late_ms_p99=late_ms[len(late_ms) * 99 // 100],
        num_broken=sum(
            not reader.is_complete or reader.num_events != num_tokens for reader in readers
        ),
        load_average_1min=os.getloadavg()[0],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True)
    add_allow_dirty(parser)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    today = time.strftime("%Y-%m-%d", time.gmtime())
    file = ResultFile(
        arguments.results / f"mock-vllm-capacity-{today}.json", allow_dirty=arguments.allow_dirty
    )
    os.sched_setaffinity(0, set(range(os.cpu_count() or 1)) - {SERVER_CORE} or {0})
    runs = []
    for repeat in range(arguments.repeats):
        for num_streams, tpot_ms in LOADS:
            flags = ("--tpot-ms", str(tpot_ms), "--max-num-seqs", "10000")
            with spawn_mock_vllm(
                *flags, "--prefill-tokens-per-s", "1e9", "--eos-every-tokens", "0"
            ) as server:
                os.sched_setaffinity(server.pid, {SERVER_CORE})
                runs.append(uvloop.run(run_once(server, num_streams, tpot_ms)))
            print(repeat, runs[-1], flush=True)
    result = {
        "what": "capacity of the mock vLLM server on one core",
        "environment": asdict(describe_environment(["python", *sys.argv])),
        "versions": {name: metadata.version(name) for name in ("uvloop", "httptools")},
        "run_s": RUN_S,
        "runs": [asdict(run) for run in runs],
    }
    file.write(result)
    print(file.path)


if __name__ == "__main__":
    main()
