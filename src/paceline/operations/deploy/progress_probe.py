"""Liveness probe of an engine: fail while requests run and none of vLLM's counters moves.

`/health` of vLLM answers even while its engine hangs. The probe compares the metrics with those of
an earlier call, which it keeps in a file: output tokens, computed prompt tokens, the use of the KV
cache, and preemptions. It runs in the pod every 30 s, so it imports the standard library only.

usage: python3 -m paceline.operations.deploy.progress_probe --url URL --state FILE --limit-s SECONDS
"""

from __future__ import annotations

import argparse
import http.client
import json
import sys
import time
import urllib.request
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

_BUSY = ("vllm:num_requests_running", "vllm:num_requests_waiting")
_PROGRESS = (
    "vllm:generation_tokens_total",
    "vllm:prompt_tokens_total",
    "vllm:kv_cache_usage_perc",
    "vllm:num_preemptions_total",
    "vllm:request_success_total",
)
_READ_TIMEOUT_S = 5.0
_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Without the proxy of the environment, which is for the download of weights."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The engine at one moment."""

    is_busy: bool
    counters: tuple[float, ...]
    """One sum for each name of `_PROGRESS`."""


@dataclass(frozen=True, slots=True)
class Progress:
    """When the counters last moved, or the engine was last idle."""

    moved_at_s: float
    counters: tuple[float, ...]


def read_metrics(lines: Iterable[str]) -> Reading:
    """Sum the series of each metric, over all engines of the page."""
    totals = dict.fromkeys((*_BUSY, *_PROGRESS), 0.0)
    for line in lines:
        name = line.partition("{")[0].partition(" ")[0]
        if name in totals:
            totals[name] += float(line.rsplit(" ", 1)[1])
    return Reading(
        is_busy=any(totals[name] > 0 for name in _BUSY),
        counters=tuple(totals[name] for name in _PROGRESS),
    )


def judge(
    before: Progress | None, now: Reading, now_s: float, limit_s: float
) -> tuple[Progress, bool]:
    """Return what to remember, and whether the engine is alive.

    >>> stuck = Reading(True, (7.0,))
    >>> judge(Progress(100.0, (7.0,)), stuck, 401.0, 300.0)[1]
    False
    >>> judge(Progress(100.0, (6.0,)), stuck, 401.0, 300.0)[1]
    True
    """
    # A clock that was set back would otherwise hide a hang for as long as it was set back.
    is_new = before is None or before.moved_at_s > now_s
    if is_new or not now.is_busy or before is None or before.counters != now.counters:
        return Progress(now_s, now.counters), True
    return before, now_s - before.moved_at_s <= limit_s


def main() -> int:
    """Probe once. The exit code is 0 while the engine makes progress or is idle."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--url", required=True)
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--limit-s", type=float, required=True)
    options = parser.parse_args()
    try:
        with _DIRECTLY.open(options.url, timeout=_READ_TIMEOUT_S) as answer:
            now = read_metrics(answer.read().decode().splitlines())
    except (OSError, http.client.HTTPException, ValueError) as error:
        print(f"{options.url} cannot be read: {error}", file=sys.stderr)
        return 1
    progress, is_alive = judge(_load(options.state), now, time.time(), options.limit_s)
    try:
        options.state.write_text(json.dumps(asdict(progress)), encoding="utf-8")
    except OSError as error:  # such as a full disk, which is no hang
        print(f"{options.state} cannot be written: {error}", file=sys.stderr)
    if not is_alive:
        waited = time.time() - progress.moved_at_s
        print(f"requests run, and nothing has moved for {waited:.0f} s", file=sys.stderr)
    return 0 if is_alive else 1


def _load(state: Path) -> Progress | None:
    """What an earlier call has left; None for the first one and for a file that was cut off."""
    try:
        document = json.loads(state.read_text(encoding="utf-8"))
        return Progress(float(document["moved_at_s"]), tuple(document["counters"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


if __name__ == "__main__":
    sys.exit(main())
