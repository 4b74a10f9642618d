"""Measure the goodput when the offered load exceeds the capacity of the replicas.

Requests arrive as a Poisson process at multiples of the capacity, whether or not earlier requests
have ended. Goodput is the number of requests per second that meet the objectives for time to first
token and total time. The capacity is known: the slots of the replicas divided by the mean duration
of a request.

    python benchmarks/gateway/overload.py --results benchmarks/results
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.gateway.arms import (
    DIRECT,
    MODEL,
    PACELINE,
    VLLM_ROUTER,
    Replicas,
    gateway_plan,
    replica_plan,
)
from benchmarks.gateway.load import Shape, arrive
from benchmarks.gateway.overload_report import render_report
from benchmarks.gateway.peers import version_of
from benchmarks.gateway.records import Promise, arrivals_summary
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

PACELINE_DEFAULT = "paceline, default wait"
ARMS = (PACELINE, PACELINE_DEFAULT, VLLM_ROUTER, DIRECT)

_REPLICAS = Replicas(count=2, tpot_ms=25.0, prefill_tokens_per_s=200_000.0, max_num_seqs=16)
_SHAPE = Shape(MODEL, num_prompt_words=60, min_tokens=16, max_tokens=48)
_PROMISE = Promise(ttft_s=1.0, total_s=2.5)
_QUEUE_WAIT_S = 0.75
"""The setting for an objective of one second to the first token."""
_WARM_UP_S = {PACELINE: 4.0, PACELINE_DEFAULT: 16.0, VLLM_ROUTER: 4.0, DIRECT: 4.0}
"""With the default wait, the gateway treats a queue as a standing queue after 12.5 s."""
_GIVE_UP_S = 3.0
"""Longer than the objectives."""


def capacity_per_s() -> float:
    """Requests per second; token k follows the first by k times TPOT, and prefill is negligible."""
    mean_tokens = (_SHAPE.min_tokens + _SHAPE.max_tokens) / 2
    mean_s = (mean_tokens - 1) * _REPLICAS.tpot_ms / 1000
    return _REPLICAS.count * _REPLICAS.max_num_seqs / mean_s


def main() -> None:
    arguments = _parser().parse_args()
    if arguments.render:
        _write_report(arguments.render)
        return
    document: dict[str, Any] = {
        "kind": "gateway overload",
        "environment": asdict(describe_environment(sys.argv)),
        "versions": {VLLM_ROUTER: version_of(VLLM_ROUTER)},
        "scheduling": scheduling(),
        "replicas": asdict(_REPLICAS),
        "shape": asdict(_SHAPE),
        "promise": asdict(_PROMISE),
        "queue_wait_s": _QUEUE_WAIT_S,
        "capacity_per_s": round(capacity_per_s(), 3),
        "seconds": arguments.seconds,
        "runs": [],
    }
    date = document["environment"]["date_utc"][:10]
    arguments.results.mkdir(parents=True, exist_ok=True)
    name = f"gateway-overload-{date}{arguments.suffix}.json"
    result = ResultFile(arguments.results / name, allow_dirty=arguments.allow_dirty)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        def start(name: str, plan: Mapping[str, Any]) -> Server:
            return stack.enter_context(running_server(name, plan, folder))

        engines = [start(f"replica-{k}", replica_plan(_REPLICAS)) for k in range(_REPLICAS.count)]
        urls = [engine.url for engine in engines]
        gateways = {}
        for arm in arguments.arms:
            if arm != DIRECT:
                own = folder / arm.replace(" ", "-")
                own.mkdir()
                gateways[arm] = start(arm, _plan(arm, urls, own, arguments.cache))
        for repeat in range(arguments.repeats):
            for load in arguments.loads:
                shift = repeat % len(arguments.arms)
                for arm in arguments.arms[shift:] + arguments.arms[:shift]:
                    if arm != PACELINE and load not in arguments.baseline_loads:
                        continue
                    wait_until_idle(engines)
                    measured = _run(
                        load,
                        gateways.get(arm),
                        engines,
                        seed=repeat,
                        warm_up_s=_WARM_UP_S[arm],
                        duration_s=arguments.seconds,
                    )
                    document["runs"].append(
                        {"repeat": repeat, "arm": arm, "load": load, **measured}
                    )
                    result.write(document)
                    print(document["runs"][-1], flush=True)
    _write_report(result.path)


def _plan(arm: str, urls: Sequence[str], folder: Path, cache: Path) -> dict[str, Any]:
    return gateway_plan(
        PACELINE if arm == PACELINE_DEFAULT else arm,
        urls,
        folder,
        cache,
        max_in_flight=_REPLICAS.max_num_seqs,
        max_queue_wait_s=None if arm == PACELINE_DEFAULT else _QUEUE_WAIT_S,
    )


def _run(
    load: float,
    gateway: Server | None,
    engines: Sequence[Server],
    *,
    seed: int,
    warm_up_s: float,
    duration_s: float,
) -> dict[str, Any]:
    marks: list[dict[str, float]] = []

    def mark() -> None:
        marks.append(cpu_mark(gateway, engines))

    async def offer() -> dict[str, Any]:
        targets = engines if gateway is None else [gateway]
        exchanges = await arrive(
            [pool_of(server) for server in targets],
            _SHAPE,
            seed,
            requests_per_s=load * capacity_per_s(),
            warm_up_s=warm_up_s,
            duration_s=duration_s,
            give_up_s=_GIVE_UP_S,
            on_warm=mark,
        )
        mark()
        return arrivals_summary(exchanges, _PROMISE, duration_s)

    with undisturbed():
        summary = uvloop.run(offer())
    return {**summary, "cores": cores_used(*marks)}


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
                        help="folder in which vllm-router is installed")  # fmt: skip
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--loads", nargs="+", type=float, metavar="X",
                        default=[0.6, 0.8, 1.0, 1.5, 2.0, 3.0],
                        help="multiples of the capacity")  # fmt: skip
    parser.add_argument("--baseline-loads", nargs="+", type=float, metavar="X",
                        default=[1.0, 3.0],
                        help="loads at which all arms are measured, not only Paceline")  # fmt: skip
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=12.0, help="measured duration of each run")
    parser.add_argument(
        "--render", type=Path, metavar="JSON", help="write this result's report again"
    )
    return parser


if __name__ == "__main__":
    main()
