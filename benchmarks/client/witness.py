"""A proxy in front of a server that notes when each streamed completion began, answered and ended.

It runs as a process between a load generator and the server under test. What it sees on the wire is
the same for every tool, so each is judged against the witness of its own run: two runs of a
shared machine differ by more than the tools do.

    python benchmarks/client/witness.py --upstream http://127.0.0.1:8000 --port 8001 --log seen
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import aiohttp
from aiohttp import web

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.servers import Server, running_server

_MAX_BODY_BYTES = 1 << 20
_HOP_HEADERS = {"host", "content-length", "transfer-encoding", "connection"}


@dataclass(frozen=True, slots=True)
class Seen:
    """One completion on the wire; seconds since the epoch."""

    begun_s: float
    """The request had arrived."""
    first_token_s: float
    last_token_s: float
    num_tokens: int
    """As requested: the requests ignore the end of the text."""


def witness_figures(seen: Sequence[Seen]) -> dict[str, float]:
    """The figures of `benchmarks.client.tools`, from what went over the wire."""
    duration_s = max(one.last_token_s for one in seen) - min(one.begun_s for one in seen)
    tokens = sum(one.num_tokens for one in seen)
    times = {
        "ttft_ms": [1e3 * (one.first_token_s - one.begun_s) for one in seen],
        "tpot_ms": [
            1e3 * (one.last_token_s - one.first_token_s) / (one.num_tokens - 1) for one in seen
        ],
    }
    return {
        "num_requests": len(seen),
        "output_tokens": tokens,
        "output_tokens_per_s": tokens / duration_s,
        "requests_per_s": len(seen) / duration_s,
        **{f"{name}.p50": statistics.median(values) for name, values in times.items()},
        **{f"{name}.mean": statistics.mean(values) for name, values in times.items()},
    }


@contextmanager
def witness_in_front(server: Server, folder: Path) -> Iterator[tuple[str, Path]]:
    """Run the proxy; its address and its log."""
    log = folder / "seen.jsonl"
    command = [sys.executable, str(Path(__file__)), "--upstream", server.url]
    command += ["--port", "{port}", "--log", str(log)]
    with running_server("witness", {"command": command}, folder) as proxy:
        yield proxy.url, log


def read_seen(log: Path, since_s: float) -> list[Seen]:
    """What was seen of requests that began after `since_s`."""
    if not log.exists():
        return []
    every = [Seen(**json.loads(line)) for line in log.read_text().splitlines()]
    return [one for one in every if one.begun_s >= since_s]


class _Proxy:
    def __init__(self, upstream: str, log: IO[str], session: aiohttp.ClientSession) -> None:
        self._upstream = upstream
        self._log = log
        self._session = session

    async def pass_on(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        begun_s = time.time()
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _HOP_HEADERS}
        async with self._session.request(
            request.method, self._upstream + request.path_qs, data=body, headers=headers
        ) as upstream:
            answer = web.StreamResponse(status=upstream.status)
            answer.content_type = upstream.content_type
            await answer.prepare(request)
            token_times: list[float] = []
            async for chunk in upstream.content.iter_any():
                if b'"choices":[{' in chunk:
                    token_times.append(time.time())
                await answer.write(chunk)
            await answer.write_eof()
        if token_times and request.path.endswith("/completions"):
            asked = json.loads(body)
            tokens = asked.get("max_tokens") or asked["max_completion_tokens"]
            seen = Seen(begun_s, token_times[0], token_times[-1], tokens)
            self._log.write(json.dumps(asdict(seen)) + "\n")
            self._log.flush()
        return answer


def main() -> None:
    """Run the proxy until it is stopped."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--log", type=Path, required=True)
    arguments = parser.parse_args()

    async def application() -> web.Application:
        app = web.Application(client_max_size=_MAX_BODY_BYTES)
        session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), timeout=aiohttp.ClientTimeout(total=None)
        )
        log = arguments.log.open("a")
        app.router.add_route("*", "/{path:.*}", _Proxy(arguments.upstream, log, session).pass_on)

        async def close(_: web.Application) -> None:
            await session.close()
            log.close()

        app.on_cleanup.append(close)
        return app

    web.run_app(application(), host="127.0.0.1", port=arguments.port, access_log=None, print=None)


if __name__ == "__main__":
    main()
