"""How much later do tokens arrive through a gateway than straight from the replicas?

The same simulated replicas, the same requests, in turn: direct, Paceline, LiteLLM's proxy and
vllm-router, each keeping so many streams open; in another order in each repeat. Direct is measured
twice in each, which shows the noise. All gateways stay up; only one is under load. What a gateway
adds is its percentile less that of direct in the same repeat.

    python benchmarks/gateway/added_latency.py --results benchmarks/results
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.gateway.arms import (
    DIRECT,
    DIRECT_AGAIN,
    GATEWAYS,
    MODEL,
    Replicas,
    gateway_plan,
    replica_plan,
)
from benchmarks.gateway.latency_report import render_report
from benchmarks.gateway.load import Shape, keep_open
from benchmarks.gateway.peers import version_of
from benchmarks.gateway.records import streams_summary
from benchmarks.gateway.sse_client import Pool
from benchmarks.servers import Server, cpu_time_s, running_server
from paceline.bench.environment import describe_environment
from paceline.bench.report import write_document, write_text

_NUM_REPLICAS = 2
_PREFILL_TOKENS_PER_S = 200_000.0
_NUM_PROMPT_WORDS = 60


@dataclass(frozen=True, slots=True)
class Level:
    """So many streams open, and how fast each of them is."""

    num_streams: int
    tpot_ms: float
    min_tokens: int
    max_tokens: int

    @property
    def chunks_per_s(self) -> float:
        return self.num_streams * 1000 / self.tpot_ms


LEVELS = (
    Level(1, 5.0, 8, 16),
    Level(32, 50.0, 8, 24),
    Level(256, 200.0, 8, 24),
)
"""Slow enough that two cores hold client, gateway and replicas: what is measured is the way
through an idle machine's gateway at so many streams, not the machine's saturation."""


def main() -> None:
    arguments = _parser().parse_args()
    if arguments.render:
        _write_report(arguments.render)
        return
    document: dict[str, Any] = {
        "kind": "gateway added latency",
        "environment": asdict(describe_environment(sys.argv)),
        "versions": {name: version_of(name) for name in GATEWAYS if name != "paceline"},
        "levels": [],
    }
    date = document["environment"]["date_utc"][:10]
    arguments.results.mkdir(parents=True, exist_ok=True)
    path = arguments.results / f"gateway-added-latency-{date}{arguments.suffix}.json"
    for level in _levels(arguments):
        document["levels"].append(_measure_level(level, arguments))
        write_document(path, document)
    _write_report(path)


def _levels(arguments: argparse.Namespace) -> list[Level]:
    chosen = [level for level in LEVELS if level.num_streams in arguments.streams]
    if arguments.tpot_ms is not None:
        chosen = [
            Level(one.num_streams, arguments.tpot_ms, one.min_tokens, one.max_tokens)
            for one in chosen
        ]
    return chosen


def _measure_level(level: Level, arguments: argparse.Namespace) -> dict[str, Any]:
    replicas = Replicas(_NUM_REPLICAS, level.tpot_ms, _PREFILL_TOKENS_PER_S, level.num_streams)
    runs: list[dict[str, Any]] = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        def start(name: str, plan: Mapping[str, Any]) -> Server:
            return stack.enter_context(running_server(name, plan, folder))

        engines = [start(f"replica-{k}", replica_plan(replicas)) for k in range(_NUM_REPLICAS)]
        urls = [engine.url for engine in engines]
        gateways = {
            name: start(
                name,
                gateway_plan(
                    name, urls, folder, arguments.cache, max_in_flight=2 * level.num_streams
                ),
            )
            for name in arguments.arms
        }
        arms = [DIRECT, *gateways, DIRECT_AGAIN]
        for name in gateways:  # what is loaded and learned at first use
            _run(level, [gateways[name]], gateways[name], engines, seed=99, duration_s=1.5)
        for repeat in range(arguments.repeats):
            shift = repeat % len(arms)
            for arm in arms[shift:] + arms[:shift]:
                gateway = gateways.get(arm)
                targets = engines if gateway is None else [gateway]
                measured = _run(
                    level, targets, gateway, engines, seed=repeat, duration_s=arguments.seconds
                )
                runs.append({"repeat": repeat, "arm": arm, **measured})
                print(_line(level, runs[-1]), flush=True)
    return {
        "level": {**asdict(level), "chunks_per_s": level.chunks_per_s},
        "replicas": asdict(replicas),
        "num_prompt_words": _NUM_PROMPT_WORDS,
        "seconds": arguments.seconds,
        "runs": runs,
    }


def _run(
    level: Level,
    targets: Sequence[Server],
    gateway: Server | None,
    engines: Sequence[Server],
    *,
    seed: int,
    duration_s: float,
) -> dict[str, Any]:
    """One arm under load: times, and the cores that each part used."""
    marks: list[dict[str, float]] = []

    def mark() -> None:
        marks.append(_cpu_s(gateway, engines))
        psutil.cpu_percent()

    async def load() -> dict[str, Any]:
        pools = [_pool(server) for server in targets]
        try:
            exchanges = await keep_open(
                pools,
                Shape(MODEL, _NUM_PROMPT_WORDS, level.min_tokens, level.max_tokens),
                seed,
                num_streams=level.num_streams,
                spread_s=min(level.tpot_ms * level.max_tokens / 1000, 3.0),
                duration_s=duration_s,
                on_warm=mark,
            )
            mark()
            return streams_summary(exchanges)
        finally:
            for pool in pools:
                pool.close()

    gc.collect()
    gc.disable()
    try:
        summary = uvloop.run(load())
    finally:
        gc.enable()
    before, after = marks
    passed_s = after["clock"] - before["clock"]
    cores = {
        part: round((after[part] - before[part]) / passed_s, 3) for part in after if part != "clock"
    }
    return {**summary, "cores": cores}


def _cpu_s(gateway: Server | None, engines: Sequence[Server]) -> dict[str, float]:
    own, machine = os.times(), psutil.cpu_times()
    return {
        "clock": own.elapsed,
        "client": own.user + own.system,
        "gateway": cpu_time_s(gateway) if gateway is not None else 0.0,
        "replicas": sum(map(cpu_time_s, engines)),
        "machine": sum(machine) - machine.idle - machine.iowait - machine.guest,
    }


def _pool(server: Server) -> Pool:
    address = urlsplit(server.url)
    return Pool(address.hostname or "", address.port or 0)


def _line(level: Level, run: Mapping[str, Any]) -> str:
    return (
        f"{level.num_streams:4d} streams, repeat {run['repeat']}, {run['arm']:13s}"
        f" ttft {run['ttft_ms']} gaps {run['inter_chunk_ms']}"
        f" n {run['num_streams']} failed {run['num_failed']} cores {run['cores']}"
    )


def _write_report(path: Path) -> None:
    report = path.with_suffix(".md")
    write_text(report, render_report(path))
    print(f"{path}\n{report}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--suffix", default="", help="appended to the name of the results")
    parser.add_argument("--cache", type=Path, default=Path("runs/peers"), metavar="FOLDER",
                        help="where the other gateways are installed")  # fmt: skip
    parser.add_argument("--arms", nargs="+", choices=GATEWAYS, default=list(GATEWAYS))
    parser.add_argument("--streams", nargs="+", type=int, metavar="N",
                        default=[level.num_streams for level in LEVELS])  # fmt: skip
    parser.add_argument("--tpot-ms", type=float, help="in place of each level's own")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0, help="measured in each run")
    parser.add_argument("--render", type=Path, metavar="JSON", help="write its report again")
    return parser


if __name__ == "__main__":
    main()
