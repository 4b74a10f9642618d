r"""Compare the gateways of two checkouts: CPU time per request and per chunk, TTFT, gaps.

Both gateways and a second copy of the first one are up at the same time, in front of the same mock
replicas, and take turns every few seconds, with the replicas without a gateway as fourth. The two
copies of the same checkout show the noise. Two loads, one of short answers and one of long streams,
separate the cost of a request from that of a chunk: cpu_s = requests * per_request + chunks *
per_chunk. `added_ttft_p50_short` is what a gateway adds to the replicas' own time.

Each figure is the median of its ratios in all repeats, with an interval that holds the true median
in 95 % of such measurements. A figure is within the limit if its whole interval is, above it if
none of it is, and undecided otherwise.

    python benchmarks/gateway/compare_checkouts.py --before ../before --before-commit 9aa0e42 \
        --after-commit HEAD --results benchmarks/results
"""

from __future__ import annotations

import argparse
import contextlib
import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks.gateway.arms import DIRECT, MODEL, PACELINE, Replicas, gateway_plan, replica_plan
from benchmarks.gateway.load import Shape, keep_open
from benchmarks.gateway.records import percentiles
from benchmarks.gateway.running import pool_of, scheduling, undisturbed, wait_until_idle
from benchmarks.results_file import ResultFile, add_allow_dirty
from benchmarks.servers import Server, cpu_time_s, running_server
from paceline.foundation.results.environment import describe_environment

BEFORE, AFTER, BEFORE_AGAIN = "before", "after", "before again"
ARMS = (BEFORE, AFTER, BEFORE_AGAIN, DIRECT)
MAX_RATIO = 1.02
"""A change may cost 2 % of latency and of CPU time."""
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Load:
    """A fixed number of open streams of one length."""

    name: str
    num_streams: int
    num_tokens: int


TPOT_MS = 40.0
LOADS = (Load("short", 8, 2), Load("long", 48, 200))
"""About 90 requests/s of 2 chunks, and 1,200 chunks/s in few requests: half a core each."""


def main() -> None:
    arguments = _parser().parse_args()
    environment = describe_environment(sys.argv)
    arguments.results.mkdir(parents=True, exist_ok=True)
    name = f"gateway-two-checkouts-{environment.date_utc[:10]}.json"
    result = ResultFile(arguments.results / name, allow_dirty=arguments.allow_dirty)
    runs = _measure(arguments)
    document: dict[str, Any] = {
        "kind": "gateway, two checkouts",
        "environment": asdict(environment),
        "commits": {"before": arguments.before_commit, "after": arguments.after_commit},
        "scheduling": scheduling(),
        "loads": [asdict(load) for load in LOADS],
        "ratios": {arm: ratios(runs, arm) for arm in (AFTER, BEFORE_AGAIN)},
        "runs": runs,
    }
    result.write(document)
    print(result.path)
    for arm, found in document["ratios"].items():
        for name, one in found.items():
            print(f"{arm:13s} {name:21s} {verdict(one):9s} {one}")


def ratios(runs: Sequence[Mapping[str, Any]], arm: str) -> dict[str, dict[str, float]]:
    """The arm's figures over those of `BEFORE` in the same repeat: median, interval of the median,
    lowest, highest."""
    by_repeat: dict[int, dict[str, dict[str, float]]] = {}
    for repeat in sorted({run["repeat"] for run in runs}):
        of_arm = {
            each: {r["load"]: r for r in runs if r["repeat"] == repeat and r["arm"] == each}
            for each in ARMS
        }
        direct_ms = of_arm[DIRECT]["short"]["ttft_ms"]["p50"]
        for each in (BEFORE, arm):
            by_repeat.setdefault(repeat, {})[each] = _figures(of_arm[each], direct_ms)
    names = by_repeat[min(by_repeat)][BEFORE]
    found = {
        name: [one[arm][name] / one[BEFORE][name] for one in by_repeat.values()] for name in names
    }
    return {
        name: {
            "median": round(median(values), 4),
            **dict(zip(("low", "high"), interval_of_median(values), strict=True)),
            "lowest": round(min(values), 4),
            "highest": round(max(values), 4),
        }
        for name, values in found.items()
    }


def interval_of_median(values: Sequence[float]) -> tuple[float, float]:
    """Two of the values, between which the true median lies in at least 95 % of all samples; the
    extremes, where these are too few for that.

    Each value is below the median with probability 1/2, so the ranks are those of a binomial
    distribution; no assumption about the form of the spread.
    """
    ordered, num = sorted(values), len(values)
    ranks = [
        rank
        for rank in range(1, num // 2 + 1)
        if sum(math.comb(num, below) for below in range(rank)) <= 0.025 * 2**num
    ]
    rank = max(ranks, default=1)
    return round(ordered[rank - 1], 4), round(ordered[num - rank], 4)


def verdict(ratio: Mapping[str, float]) -> str:
    """Whether a ratio with its interval is within `MAX_RATIO`."""
    if ratio["high"] <= MAX_RATIO:
        return "within"
    return "above" if ratio["low"] > MAX_RATIO else "undecided"


def _figures(by_load: Mapping[str, Mapping[str, Any]], direct_ms: float) -> dict[str, float]:
    counts = np.array([[by_load[n]["num_requests"], by_load[n]["num_chunks"]] for n in by_load])
    cpu_s = np.array([by_load[name]["cpu_s"] for name in by_load])
    per_request_s, per_chunk_s = np.linalg.solve(counts, cpu_s)
    return {
        "cpu_per_request": float(per_request_s),
        "cpu_per_chunk": float(per_chunk_s),
        **{f"cpu_{name}": run["cpu_s"] / run["num_chunks"] for name, run in by_load.items()},
        "ttft_p50_short": by_load["short"]["ttft_ms"]["p50"],
        "ttft_p90_short": by_load["short"]["ttft_ms"]["p90"],
        "added_ttft_p50_short": by_load["short"]["ttft_ms"]["p50"] - direct_ms,
        "gaps_p50_long": by_load["long"]["gaps_ms"]["p50"],
        "gaps_p99_long": by_load["long"]["gaps_ms"]["p99"],
    }


def _measure(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    replicas = Replicas(2, TPOT_MS, 200_000.0, max(load.num_streams for load in LOADS))
    checkouts = {BEFORE: arguments.before, AFTER: _ROOT, BEFORE_AGAIN: arguments.before}
    runs: list[dict[str, Any]] = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))

        def start(name: str, plan: Mapping[str, Any]) -> Server:
            return stack.enter_context(running_server(name.replace(" ", "-"), plan, folder))

        engines = [start(f"replica-{k}", replica_plan(replicas)) for k in range(replicas.count)]
        gateways = {}
        for name, checkout in checkouts.items():
            (own := folder / name.replace(" ", "-")).mkdir()
            plan = gateway_plan(PACELINE, [e.url for e in engines], own, own, max_in_flight=256)
            gateways[name] = start(
                name, {**plan, "env": {"PYTHONPATH": str(Path(checkout).resolve() / "src")}}
            )
        for gateway in gateways.values():  # warm-up: first uses are slow
            for load in LOADS:
                _run(load, gateway, engines, seed=99, duration_s=1.0)
        for repeat in range(arguments.repeats):
            for load in LOADS:
                shift = repeat % len(ARMS)
                for arm in ARMS[shift:] + ARMS[:shift]:
                    measured = _run(
                        *(load, gateways.get(arm), engines),
                        seed=repeat,
                        duration_s=arguments.seconds,
                    )
                    runs.append({"repeat": repeat, "load": load.name, "arm": arm, **measured})
                    print(runs[-1], flush=True)
    return runs


def _run(
    load: Load, gateway: Server | None, engines: Sequence[Server], *, seed: int, duration_s: float
) -> dict[str, Any]:
    """One turn; without a gateway, the requests go to the replicas in turn."""
    marks: list[float] = []

    def mark() -> None:
        marks.append(0.0 if gateway is None else cpu_time_s(gateway))

    async def run() -> dict[str, Any]:
        exchanges, warm_s = await keep_open(
            [pool_of(gateway)] if gateway is not None else list(map(pool_of, engines)),
            Shape(MODEL, 60, load.num_tokens, load.num_tokens),
            seed,
            num_streams=load.num_streams,
            spread_s=min(load.num_tokens * TPOT_MS / 1000, 2.0),
            duration_s=duration_s,
            on_warm=mark,
        )
        mark()
        begun = [one for one in exchanges if one.sent_s >= warm_s and one.arrivals_s]
        gaps = [
            1000 * (later - earlier)
            for one in exchanges
            for earlier, later in zip(one.arrivals_s, one.arrivals_s[1:], strict=False)
            if later >= warm_s
        ]
        return {
            "num_requests": len(begun),
            "num_chunks": sum(at >= warm_s for one in exchanges for at in one.arrivals_s),
            "num_failed": sum(not one.is_complete and not one.is_cut for one in exchanges),
            "ttft_ms": percentiles([1000 * (one.arrivals_s[0] - one.sent_s) for one in begun]),
            "gaps_ms": percentiles(gaps),
        }

    wait_until_idle(engines)
    with undisturbed():
        summary = uvloop.run(run())
    return {**summary, "cpu_s": round(marks[1] - marks[0], 4)}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--before", type=Path, required=True, metavar="CHECKOUT")
    parser.add_argument("--before-commit", required=True)
    parser.add_argument("--after-commit", required=True)
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    add_allow_dirty(parser)
    parser.add_argument("--repeats", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=5.0)
    return parser


if __name__ == "__main__":
    main()
