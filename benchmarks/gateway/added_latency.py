"""Measure the latency that a gateway adds between clients and the replicas.

The arms are direct, Paceline, LiteLLM's proxy and vllm-router. They take turns with the same
requests to the same mock replicas, in a different order in each repeat, with a fixed number of
streams open at all times. Direct is measured twice in each repeat, which shows the noise. All
gateways stay up; only one is under load. The latency that a gateway adds is its percentile minus
that of direct in the same repeat.

    python benchmarks/gateway/added_latency.py --results benchmarks/results
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

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
from benchmarks.gateway.running import (
    cores_used,
    cpu_mark,
    pool_of,
    scheduling,
    undisturbed,
    wait_until_idle,
)
from benchmarks.results_file import ResultFile, add_allow_dirty, sibling
from benchmarks.servers import Server, running_server
from paceline.foundation.results.environment import describe_environment
from paceline.foundation.results.files import write_text

_NUM_REPLICAS = 2
_PREFILL_TOKENS_PER_S = 200_000.0
_NUM_PROMPT_WORDS = 60


@dataclass(frozen=True, slots=True)
class Level:
    """The number of open streams, their speed, and the duration of the measurement."""

    name: str
    num_streams: int
    tpot_ms: float
    min_tokens: int
    max_tokens: int
    seconds: float

    @property
    def stream_s(self) -> float:
        """The mean duration of a stream."""
        return (self.min_tokens + self.max_tokens) / 2 * self.tpot_ms / 1000


LEVELS = (
    Level("1", 1, 5.0, 8, 16, 14.0),
    Level("32", 32, 100.0, 16, 48, 22.0),
    Level("256", 256, 500.0, 16, 48, 26.0),
    Level("256-brisk", 256, 200.0, 8, 24, 5.0),
)
"""Slow enough for two cores to run client, replicas and any of the gateways without saturation. The
last level is the exception: LiteLLM cannot handle its rate of new streams on one core. Five repeats
have more than 1,000 requests, enough for a p99."""
_MAX_SPREAD_S = 6.0


def main() -> None:
    arguments = _parser().parse_args()
    if arguments.render:
        _write_report(arguments.render)
        return
    document: dict[str, Any] = {
        "kind": "gateway added latency",
        "environment": asdict(describe_environment(sys.argv)),
        "versions": {name: version_of(name) for name in GATEWAYS if name != "paceline"},
        "scheduling": scheduling(),
        "levels": [],
    }
    date = document["environment"]["date_utc"][:10]
    arguments.results.mkdir(parents=True, exist_ok=True)
    name = f"gateway-added-latency-{date}{arguments.suffix}.json.gz"
    result = ResultFile(arguments.results / name, allow_dirty=arguments.allow_dirty)
    for level in (level for level in LEVELS if level.name in arguments.levels):
        document["levels"].append(_measure_level(level, arguments))
        result.write(document)
    _write_report(result.path)


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
        for name in gateways:  # warm-up: first uses are slow
            _run(level, [gateways[name]], gateways[name], engines, seed=99, duration_s=1.0)
        for repeat in range(arguments.repeats):
            shift = repeat % len(arms)
            for arm in arms[shift:] + arms[:shift]:
                gateway = gateways.get(arm)
                targets = engines if gateway is None else [gateway]
                measured = _run(
                    level, targets, gateway, engines, seed=repeat, duration_s=level.seconds
                )
                runs.append({"repeat": repeat, "arm": arm, **measured})
                print(_line(level, runs[-1]), flush=True)
    return {
        "level": asdict(level),
        "replicas": asdict(replicas),
        "num_prompt_words": _NUM_PROMPT_WORDS,
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
    """Run one arm: its latencies, and the cores that each part used."""
    marks: list[dict[str, float]] = []

    def mark() -> None:
        marks.append(cpu_mark(gateway, engines))

    async def load() -> dict[str, Any]:
        exchanges, warm_s = await keep_open(
            [pool_of(server) for server in targets],
            Shape(MODEL, _NUM_PROMPT_WORDS, level.min_tokens, level.max_tokens),
            seed,
            num_streams=level.num_streams,
            spread_s=min(level.stream_s, _MAX_SPREAD_S),
            duration_s=duration_s,
            on_warm=mark,
        )
        mark()
        return streams_summary(exchanges, warm_s)

    wait_until_idle(engines)
    with undisturbed():
        summary = uvloop.run(load())
    return {**summary, "cores": cores_used(*marks)}


def _line(level: Level, run: Mapping[str, Any]) -> str:
    return (
        f"{level.name:9s} repeat {run['repeat']}, {run['arm']:13s}"
        f" ttft {run['ttft_ms']} gaps {run['inter_chunk_ms']}"
        f" n {run['num_with_first_token']}/{run['num_begun']} failed {run['num_failed']}"
        f" cores {run['cores']}"
    )


def _write_report(path: Path) -> None:
    report = sibling(path, ".md")
    write_text(report, render_report(path))
    print(f"{path}\n{report}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    add_allow_dirty(parser)
    parser.add_argument("--suffix", default="", help="appended to the name of the result file")
    parser.add_argument("--cache", type=Path, default=Path("runs/peers"), metavar="FOLDER",
                        help="folder in which the other gateways are installed")  # fmt: skip
    parser.add_argument("--arms", nargs="+", choices=GATEWAYS, default=list(GATEWAYS))
    names = [level.name for level in LEVELS]
    parser.add_argument("--levels", nargs="+", choices=names, default=names)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument(
        "--render", type=Path, metavar="JSON", help="write this result's report again"
    )
    return parser


if __name__ == "__main__":
    main()
