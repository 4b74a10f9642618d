"""Replace a gateway and restart its four replicas one by one under 64 streams.

    python benchmarks/rolling_upgrade.py

Streams with known answers run continuously over four simulated replicas, half of them on kept-alive
connections, one in eight requests without streaming. A new gateway takes over from the running one;
then each replica is drained, restarted and returned to service. Every answer is compared with its
expected one, token by token, and with the requests that the replicas recorded. The times to the
first token are compared with those of the same clients before the upgrade. The exit code is 1 if
any request failed or was cut.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from chaos.expected_requests import find_errors
from chaos.fleet import running_fleet
from chaos.transcript import Transcript
from chaos.upgrades.rolling import LAME_DUCK_S, Load, restart_replicas, successor_of

from benchmarks.results_file import ResultFile, add_allow_dirty
from paceline.foundation.results.environment import describe_environment


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=4, help="half of them with two workers")
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--replicas", type=int, default=4)
    parser.add_argument("--tpot-ms", type=float, default=40.0)
    parser.add_argument("--before-s", type=float, default=6.0, help="load before the upgrade")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    environment = describe_environment(sys.argv)
    result = ResultFile(
        arguments.results / f"rolling-upgrade-{environment.date_utc[:10]}.json",
        allow_dirty=arguments.allow_dirty,
    )
    runs = []
    for repeat in range(arguments.repeats):
        runs.append(asyncio.run(_run(1 + repeat % 2, arguments)))
        print(runs[-1], flush=True)
    document = {
        "schema_version": 1,
        "kind": "rolling upgrade under load",
        "environment": asdict(environment),
        "num_streams": arguments.streams,
        "num_replicas": arguments.replicas,
        "tpot_ms": arguments.tpot_ms,
        "runs": runs,
    }
    result.write(document)
    print(f"written: {result.path}")
    return 1 if any(run["faults"] for run in runs) else 0


async def _run(workers: int, arguments: argparse.Namespace) -> dict[str, Any]:
    config = {"server": {"workers": workers, "lame_duck_s": LAME_DUCK_S}}
    flags = ("--tpot-ms", str(arguments.tpot_ms))
    with running_fleet(arguments.replicas, *flags, config=config) as fleet:
        old, load = fleet.gateway, Load(fleet.gateway.url, arguments.streams)
        running = asyncio.create_task(load.run())
        await asyncio.sleep(arguments.before_s)
        begun_s = time.monotonic()
        with contextlib.ExitStack() as stack:
            fleet.gateway = await asyncio.to_thread(
                stack.enter_context, successor_of(fleet, workers)
            )
            taken_s = time.monotonic()
            code = await asyncio.to_thread(old.process.wait, 60)
            drained_s = time.monotonic()
            await asyncio.to_thread(restart_replicas, fleet)
            ended_s = time.monotonic()
            load.stop()
            await running
        faults = find_errors(fleet, load.requests, load.transcripts)
    if code != 0:
        faults.append(f"the old gateway ended with exit code {code}")
    return {
        "workers": workers,
        "num_requests": len(load.transcripts),
        "num_during_upgrade": sum(begun_s <= t.start_s < ended_s for t in load.transcripts),
        "faults": faults,
        "take_over_s": taken_s - begun_s,
        "old_gateway_ends_after_s": drained_s - taken_s,
        "replicas_s": ended_s - drained_s,
        "before": _figures([t for t in load.transcripts if t.start_s < begun_s]),
        "during": _figures([t for t in load.transcripts if begun_s <= t.start_s < ended_s]),
    }


def _figures(transcripts: Sequence[Transcript]) -> dict[str, Any]:
    """Of streams: time to the first token, and the longest pause within a stream, in ms."""
    streams = [t for t in transcripts if t.first_token_s is not None and t.stream_ids]
    first_ms = sorted(1e3 * ((t.first_token_s or 0.0) - t.start_s) for t in streams)
    pauses_ms = sorted(1e3 * t.longest_silence_s for t in streams)
    return {
        "num_streams": len(streams),
        **{
            f"{name}_{label}_ms": values[min(len(values) - 1, int(share * len(values)))]
            for name, values in (("first_token", first_ms), ("longest_pause", pauses_ms))
            for label, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0))
        },
    }


if __name__ == "__main__":
    sys.exit(main())
