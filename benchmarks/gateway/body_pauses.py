"""Measure how long hostile request bodies pause the streams of other clients.

    python benchmarks/gateway/body_pauses.py --json benchmarks/results/body-pauses.json

The gateway and two mock vLLM servers run in processes of their own. This process reads eight
streams of one token per 10 ms from one of them. Another process sends ten bodies of one kind at the
same moment, each just below `server.max_body_bytes`, for the model of the other server. A pause is
the time between two chunks of one stream. After each round comes a control: the same process
generates the same bodies and connects, and sends only a small request on each connection. The exit
code is 1 if any pause with bodies exceeds 100 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests"))

from chaos.fleet import MODEL, Fleet, running_fleet
from chaos.gateway_process import HTTP

from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.foundation.results.environment import describe_environment
from paceline.testing.mock_vllm import spawn_mock_vllm

OTHER_MODEL = "other"
MAX_PAUSE_MS = 100.0
NUM_BODIES = 10
NUM_STREAMS = 8
TPOT_MS = 10
_MAX_BODY_BYTES = 8 * 1024 * 1024 - 1024
_MAX_VALUES = 262_000
_NUM_TOKENS = 60_000
"""The streams outlast the measurement."""


def _filled(unit: bytes, most: int | None = None) -> bytes:
    count = _MAX_BODY_BYTES // len(unit)
    return unit * (count if most is None else min(count, most))


def _listed(unit: bytes, most: int | None = None) -> bytes:
    return b"[" + _filled(unit, most) + unit.rstrip(b",") + b"]"


BODIES: Mapping[str, Callable[[], bytes]] = {
    "empty arrays": lambda: _listed(b"[],"),
    "empty objects": lambda: _listed(b"{},"),
    "empty texts": lambda: _listed(b'"",'),
    "token ids": lambda: _listed(b"123456,"),
    "arrays within the limit": lambda: _listed(b"[],", 19_000),
    "token ids within the limit": lambda: _listed(b"123456,", _MAX_VALUES),
    "numbers within the limit": lambda: _listed(b"1.2345678901234567e-5,", _MAX_VALUES),
    "texts within the limit": lambda: _listed(b'"abcdefghijklmnopqrst",', _MAX_VALUES),
    "one text": lambda: b'"' + _filled(b"word, ") + b'"',
    "one text of escapes": lambda: b'"' + _filled(b"\\u4e2d") + b'"',
    "one text of line ends": lambda: b'"' + _filled(b"a\\n") + b'"',
    "one text of Chinese": lambda: b'"' + _filled("中".encode()) + b'"',
    "quotes": lambda: _filled(b'"'),
    "backslashes": lambda: b'"' + _filled(b"\\"),
}
"""The value of `prompt`, by kind."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="rounds per kind of body")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    parser.add_argument("--send", nargs=3, metavar=("KIND", "ARM", "URL"), help=argparse.SUPPRESS)
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    if arguments.send:
        asyncio.run(_send_bodies(*arguments.send))
        return 0
    file = ResultFile(arguments.json, allow_dirty=arguments.allow_dirty) if arguments.json else None
    flags = ("--tpot-ms", str(TPOT_MS), "--max-model-len", str(2 * _NUM_TOKENS))
    with (
        running_fleet(1, *flags, "--eos-every-tokens", "0") as fleet,
        spawn_mock_vllm("--model", OTHER_MODEL, *flags) as other,
    ):
        added = {"url": other.url, "name": OTHER_MODEL}
        HTTP.post(f"{fleet.gateway.admin_url}/admin/replicas", json=added).raise_for_status()
        fleet.gateway.wait_ready(2, within_s=60)
        pauses = asyncio.run(_measure(fleet, arguments.rounds))
    report = {
        "environment": asdict(describe_environment(sys.argv)),
        "settings": {"bodies": NUM_BODIES, "streams": NUM_STREAMS, "tpot_ms": TPOT_MS},
        "pauses": pauses,
    }
    if file:
        file.write(report)
    print(json.dumps(pauses, indent=2))
    return int(any(max(kind["longest_ms"]) > MAX_PAUSE_MS for kind in pauses))


async def _measure(fleet: Fleet, num_rounds: int) -> list[dict[str, Any]]:
    """For each kind, the longest pause of each round and control, and the statuses of answers."""
    gaps_ms: list[float] = []
    streams = [asyncio.create_task(_read_stream(fleet, gaps_ms)) for _ in range(NUM_STREAMS)]
    await asyncio.sleep(1.0)
    found = []
    for kind in BODIES:
        longest_ms: dict[str, list[float]] = {"hostile": [], "control": []}
        statuses = Counter[str]()
        for _ in range(num_rounds):
            for arm, of_arm in longest_ms.items():
                await asyncio.sleep(0.5)
                gaps_ms.clear()
                answered = await _run_sender(kind, arm, fleet.gateway.url)
                of_arm.append(round(max(gaps_ms), 1))
                if arm == "hostile":
                    statuses.update(answered)
        found.append(
            {
                "bodies": kind,
                "longest_ms": longest_ms["hostile"],
                "control_longest_ms": longest_ms["control"],
                "statuses": dict(statuses),
            }
        )
        print(found[-1], file=sys.stderr)
    for stream in streams:
        stream.cancel()
    await asyncio.gather(*streams, return_exceptions=True)
    return found


async def _read_stream(fleet: Fleet, gaps_ms: list[float]) -> None:
    body = {"model": MODEL, "prompt": "x", "max_tokens": _NUM_TOKENS, "stream": True}
    reader, writer = await _connect(fleet.gateway.url)
    writer.write(_head(len(data := json.dumps(body).encode())) + data)
    await reader.readuntil(b"\r\n\r\n")
    last_s = time.monotonic()
    while await reader.read(65_536):
        now_s = time.monotonic()
        gaps_ms.append(1000 * (now_s - last_s))
        last_s = now_s


async def _run_sender(kind: str, arm: str, url: str) -> list[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, __file__, "--send", kind, arm, url, stdout=subprocess.PIPE
    )
    out, _ = await process.communicate()
    return out.decode().split()


async def _send_bodies(kind: str, arm: str, url: str) -> None:
    """Send all bodies at once, and print the status of each answer; 0 for none."""
    start = b'{"model":"%s","max_tokens":1,"prompt":' % OTHER_MODEL.encode()
    body = start + BODIES[kind]() + b"}"
    if arm == "control":
        body = start + b'"x"}'

    async def send() -> int:
        reader, writer = await _connect(url)
        try:
            writer.write(_head(len(body)))
            writer.write(body)
            return int((await reader.readline()).split()[1])
        except (ConnectionError, IndexError):
            return 0
        finally:
            writer.close()

    print(*await asyncio.gather(*(send() for _ in range(NUM_BODIES))))


async def _connect(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = url.removeprefix("http://").partition(":")
    return await asyncio.open_connection(host, int(port))


def _head(num_bytes: int) -> bytes:
    return (
        "POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {num_bytes}\r\n\r\n"
    ).encode()


if __name__ == "__main__":
    sys.exit(main())
