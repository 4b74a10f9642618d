"""Measure the gateway's memory under bodies that wait and clients that do not read.

    python benchmarks/gateway/byte_budget.py --json benchmarks/results/byte-budget.json

Three loads, each on a new gateway with `server.max_buffered_bytes` of 512 MiB:

- `bodies`: 1,000 clients send 8 MiB each to a model with four slots, whose answers take half a
  second. Those that fit into the budget wait for a slot and are served; the others are refused.
- `readers`: 1,000 clients request streams that come as fast as they are read, and read one byte per
  minute, so that every buffer on the way is full.
- `both`: the bodies, while the readers hold their streams.

The gateway, the two servers and this load generator are separate processes. The peak of the
gateway's resident memory is the kernel's (`VmHWM`). The exit code is 1 if the memory grows by more
than the budget, if more than 64 MiB of it stay after the load, if bytes stay reserved, if a request
gets neither an answer nor a refusal, or if a refusal takes more than 50 ms (99th percentile, from
the head of the request to the head of the answer).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import resource
import socket
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from chaos.fleet import Fleet, running_fleet, wait_until
from chaos.gateway_process import HTTP

from benchmarks.gateway import flooding_server
from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.foundation.results.environment import describe_environment

MIB = 1024 * 1024
BUDGET_BYTES = 512 * MIB
MAX_LEFT_BYTES = 64 * MIB
MAX_REFUSAL_MS = 50.0
NUM_SLOTS = 4
_STREAMS, _ANSWERS = "streams", "answers"
"""The models of the two servers."""
_BODY_BYTES = 8 * MIB - 1024
_NUM_FILES = 8192
_RETURNED_AFTER_S = 25.0
"""The gateway returns memory to the system ten to twenty seconds after requests have ended."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--clients-per-s", type=float, default=50.0, help="rate of new clients")
    parser.add_argument("--hold-s", type=float, default=20.0, help="time with all readers")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    file = ResultFile(arguments.json, allow_dirty=arguments.allow_dirty) if arguments.json else None
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(_NUM_FILES, hard), hard))
    report: dict[str, Any] = {
        "environment": asdict(describe_environment(sys.argv)),
        "settings": {
            "clients": arguments.clients,
            "clients_per_s": arguments.clients_per_s,
            "budget_bytes": BUDGET_BYTES,
            "body_bytes": _BODY_BYTES,
        },
        "loads": {
            "bodies": _measure(_send_bodies, arguments),
            "readers": _measure(_read_slowly, arguments),
            "both": _measure(_send_bodies_to_readers, arguments),
        },
    }
    if file:
        file.write(report)
    print(json.dumps(report["loads"], indent=2))
    return int(not all(load["is_passed"] for load in report["loads"].values()))


Load = Callable[[Fleet, argparse.Namespace, dict[str, Any]], Any]


def _measure(load: Load, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run one load on a gateway of its own."""
    config = {
        "server": {"max_buffered_bytes": BUDGET_BYTES, "workers": 1},
        "admission": {"max_in_flight": NUM_SLOTS, "max_queue_wait_s": 60},
    }
    with (
        flooding_server.flooding_server(_STREAMS) as streams_url,
        flooding_server.flooding_server(_ANSWERS) as answers_url,
        running_fleet(1, config=config, keeps_request_log=False) as fleet,
    ):
        for url, name, slots in (
            (streams_url, _STREAMS, 4096),
            (answers_url, _ANSWERS, NUM_SLOTS),
        ):
            added = {"url": url, "name": name, "dialect": "openai", "max_in_flight": slots}
            HTTP.post(f"{fleet.gateway.admin_url}/admin/replicas", json=added).raise_for_status()
        fleet.gateway.wait_ready(3, within_s=60)
        found: dict[str, Any] = {"refusal_ms": [], "statuses": {}}
        found["before_bytes"] = fleet.gateway.rss_bytes()
        asyncio.run(load(fleet, arguments, found))
        found["peak_bytes"] = _peak_bytes(fleet)
        wait_until(lambda: fleet.gateway.num_in_flight == 0, within_s=60)
        time.sleep(_RETURNED_AFTER_S)
        found["after_bytes"] = fleet.gateway.rss_bytes()
        found["buffered_after"] = _buffered_bytes(fleet)
    refusal_ms = sorted(found.pop("refusal_ms"))
    found["refusals_ms"] = {
        "n": len(refusal_ms),
        "p50": _quantile(refusal_ms, 0.5),
        "p99": _quantile(refusal_ms, 0.99),
        "longest": _quantile(refusal_ms, 1.0),
    }
    found["is_passed"] = (
        found["peak_bytes"] - found["before_bytes"] <= BUDGET_BYTES
        and found["after_bytes"] - found["before_bytes"] <= MAX_LEFT_BYTES
        and found["buffered_after"] == 0
        and (found["refusals_ms"]["p99"] or 0.0) <= MAX_REFUSAL_MS
        and found["statuses"].keys() <= {"200", "503"}
    )
    return found


async def _send_bodies(fleet: Fleet, arguments: argparse.Namespace, found: dict[str, Any]) -> None:
    text = b"word " * (_BODY_BYTES // 5 - 40)
    body = b'{"model":"%s","max_tokens":25,"prompt":"%s"}' % (_ANSWERS.encode(), text)
    statuses: Counter[str] = Counter()

    async def send(delay_s: float) -> None:
        await asyncio.sleep(delay_s)
        async with _connected(fleet) as (reader, writer):
            began_s = time.monotonic()
            writer.write(_head(len(body)))
            status, answered_s = await _send_until_answered(reader, writer, body)
            statuses[status] += 1
            if status == "503":
                found["refusal_ms"].append(1000 * (answered_s - began_s))

    await asyncio.gather(
        *(send(number / arguments.clients_per_s) for number in range(arguments.clients))
    )
    found["statuses"] = dict(statuses)


async def _send_until_answered(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, body: bytes
) -> tuple[str, float]:
    """Status of the answer, "none" when the connection ended without one, and when it arrived."""
    answering = asyncio.create_task(_read_status(reader))
    with suppress(ConnectionError):
        for start in range(0, len(body), 65_536):
            if answering.done():
                break
            writer.write(body[start : start + 65_536])
            await writer.drain()
            await asyncio.sleep(0)  # drain suspends only when the buffers are full
    return await answering


async def _read_status(reader: asyncio.StreamReader) -> tuple[str, float]:
    line = b""
    with suppress(ConnectionError):
        line = await reader.readline()
    answered_s = time.monotonic()
    return (line.split()[1].decode() if line else "none"), answered_s


async def _read_slowly(fleet: Fleet, arguments: argparse.Namespace, found: dict[str, Any]) -> None:
    async with _reading(fleet, arguments, found):
        pass


async def _send_bodies_to_readers(
    fleet: Fleet, arguments: argparse.Namespace, found: dict[str, Any]
) -> None:
    async with _reading(fleet, arguments, found):
        await _send_bodies(fleet, arguments, found)


@asynccontextmanager
async def _reading(
    fleet: Fleet, arguments: argparse.Namespace, found: dict[str, Any]
) -> AsyncIterator[None]:
    """Hold streams whose clients read one byte per minute, with their buffers full."""
    body = {"model": _STREAMS, "prompt": "x", "max_tokens": 1000, "stream": True}
    data = json.dumps(body).encode()
    clients: list[socket.socket] = []
    try:
        for _ in range(arguments.clients):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(_address(fleet))
            client.sendall(_head(len(data)) + data)
            clients.append(client)
            await asyncio.sleep(1 / arguments.clients_per_s)
        await asyncio.sleep(arguments.hold_s)
        found["buffered_bytes"] = _buffered_bytes(fleet)
        found["num_in_flight"] = fleet.gateway.num_in_flight
        for client in clients:  # the byte of this minute; it begins the status line
            client.settimeout(5)
            client.recv(1)
        yield
    finally:
        for client in clients:
            client.close()


@asynccontextmanager
async def _connected(
    fleet: Fleet,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(*_address(fleet))
    try:
        yield reader, writer
    finally:
        writer.close()


def _address(fleet: Fleet) -> tuple[str, int]:
    host, _, port = fleet.gateway.url.removeprefix("http://").partition(":")
    return host, int(port)


def _head(num_bytes: int) -> bytes:
    return (
        "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {num_bytes}\r\n\r\n"
    ).encode()


def _peak_bytes(fleet: Fleet) -> int:
    """The most resident memory that the gateway has had."""
    status = Path(f"/proc/{fleet.gateway.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
    return 1024 * int(line.split()[1])


def _buffered_bytes(fleet: Fleet) -> float:
    return fleet.gateway.metrics()["paceline_buffered_bytes"]


def _quantile(values: list[float], fraction: float) -> float | None:
    """The smallest value that this fraction of all does not exceed."""
    if not values:
        return None
    return round(values[max(0, math.ceil(fraction * len(values)) - 1)], 1)


if __name__ == "__main__":
    sys.exit(main())
