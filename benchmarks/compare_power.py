"""False alarms and power of `paceline bench compare`, in virtual time on replayed machine noise.

The decisions are those of the command: `run_campaign` with a virtual clock and simulated servers.
The noise is that of recorded runs: every engine step of the arms with a fixed draft length in two
results of `governor/interleaved_trace.py`, in the order in which the machine ran them, divided by
the median of the same arm, phase and draft length over all repeats. What remains is how much slower
or faster the machine was then: other load, stalls, drift. A simulated server works at that
pace, from a random point of the recording on.

Reported for every block duration and method: how many of the comparisons of a server with itself
find a difference (false alarms), how many find one of 3 % (in a closed loop with one request in
flight), and the minutes that they took. `t` is Student's interval over the rounds, for comparison.

    python benchmarks/compare_power.py --results benchmarks/results
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import numpy.typing as npt

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.results_file import ResultFile, add_allow_dirty, read_result
from paceline.foundation.results.environment import describe_environment
from paceline.workbench.bench.compare import verdict as verdict_module
from paceline.workbench.bench.compare.campaign import Campaign, CampaignSettings, run_campaign
from paceline.workbench.bench.compare.contrasts import Arm, Block, Figure

RECORDINGS = (
    "governor-interleaved-twin-model-trace-2026-11-22.json.gz",
    "governor-interleaved-twin-model-trace-2026-11-22-2.json.gz",
)
FIXED_ARMS = ("none", "none#again", "K=2", "K=4", "K=8")
BLOCKS_S = (0.5, 1.0, 2.0, 4.0, 8.0)
METHODS = ("signed rank", "t")
GAINS = (0.0, 0.03, -0.03)
_REQUEST_S = 0.5
"""Nominal time of a request, a fifth of it before the first token."""
_PREFILL_FRACTION = 0.2
_BETWEEN_BLOCKS_S = 0.005


@dataclass(frozen=True, slots=True)
class Noise:
    """A recording as two ascending series: at real time `time_s`, `work_s` nominal work is done."""

    time_s: npt.NDArray[np.float64]
    work_s: npt.NDArray[np.float64]

    def finish_s(self, start_s: float, work_s: float) -> float:
        """When work that starts at `start_s` is done; the recording repeats without end."""
        length_s, total_s = float(self.time_s[-1]), float(self.work_s[-1])
        laps, within_s = divmod(start_s, length_s)
        done_s = float(np.interp(within_s, self.time_s, self.work_s)) + work_s
        more_laps, rest_s = divmod(done_s, total_s)
        return (laps + more_laps) * length_s + float(np.interp(rest_s, self.work_s, self.time_s))


def load_noise(documents: Sequence[Mapping[str, Any]]) -> Noise:
    """The recordings one after the other."""
    factors: list[float] = []
    nominal_ms: list[float] = []
    for document in documents:
        for actual, usual in steps_in_order(document):
            factors.append(actual / usual)
            nominal_ms.append(usual)
    work = np.asarray(nominal_ms) / 1e3
    passed = work * np.asarray(factors)
    return Noise(np.insert(np.cumsum(passed), 0, 0.0), np.insert(np.cumsum(work), 0, 0.0))


def steps_in_order(document: Mapping[str, Any]) -> Iterator[tuple[float, float]]:
    """Duration and usual duration in ms of every decode step, in the order of the machine.

    The arms of a phase took turns in slices; a slice is an equal part of the steps.
    """
    runs = [run for run in document["runs"] if run["arm"] in FIXED_ARMS]
    samples: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for run in runs:
        for ms, planned in _decode_steps(run):
            samples[run["phase"], run["arm"], planned].append(ms)
    usual = {key: statistics.median(values) for key, values in samples.items()}
    groups: dict[tuple[int, int], list[Mapping[str, Any]]] = defaultdict(list)
    for run in runs:
        groups[run["repeat"], run["place"]].append(run)
    slices = document["plan"]["slices"]
    for key in sorted(groups):
        in_turn = sorted(groups[key], key=lambda run: run["position"])
        parts = [np.array_split(np.arange(len(_decode_steps(run))), slices) for run in in_turn]
        for part in range(slices):
            for run, indices in zip(in_turn, parts, strict=True):
                steps = _decode_steps(run)
                for index in indices[part]:
                    ms, planned = steps[index]
                    yield ms, usual[run["phase"], run["arm"], planned]


def _decode_steps(run: Mapping[str, Any]) -> list[tuple[float, int]]:
    """Duration in ms and draft length of the steps that computed no prompt."""
    steps = run["steps"]
    return [
        (ms, planned)
        for ms, planned, prompt in zip(
            steps["ms"], steps["planned"], steps["prompt_tokens"], strict=True
        )
        if not prompt
    ]


class ReplayedServers:
    """Two servers on the recorded machine; B needs 1 / (1 + gain) of the work."""

    def __init__(self, noise: Noise, gain: float, block_s: float, start_s: float) -> None:
        self._noise, self._gain, self._block_s = noise, gain, block_s
        self._start_s = self._now_s = start_s

    def clock(self) -> float:
        return self._now_s

    async def run(self, arm: Arm, round_index: int, position: int) -> Block:
        """See `BlockRunner`: requests one after the other, 50 tokens each."""
        factor = 1 / (1 + self._gain) if arm is Arm.B else 1.0
        started_s = self._now_s
        ttfts_s, tails_s = [], []
        num_requests = max(1, round(self._block_s / _REQUEST_S))
        for _ in range(num_requests):
            sent_s = self._now_s
            first_s = self._noise.finish_s(sent_s, factor * _REQUEST_S * _PREFILL_FRACTION)
            self._now_s = self._noise.finish_s(
                first_s, factor * _REQUEST_S * (1 - _PREFILL_FRACTION)
            )
            ttfts_s.append(first_s - sent_s)
            tails_s.append(self._now_s - first_s)
        window_s = self._now_s - started_s
        self._now_s += _BETWEEN_BLOCKS_S
        tokens = 50 * num_requests
        return Block(
            round_index=round_index, position=position, arm=arm,
            started_s=started_s - self._start_s, window_s=window_s, num_requests=num_requests,
            num_errors=0, output_tokens=tokens, output_tokens_per_s=tokens / window_s,
            ttft_ms=1e3 * statistics.fmean(ttfts_s),
            tpot_ms=1e3 * sum(tails_s) / (tokens - num_requests), dispatch_delays_ms=(),
        )  # fmt: skip


def compare_once(
    noise: Noise, gain: float, block_s: float, seed: int, settings: CampaignSettings
) -> dict[str, Any]:
    """One comparison from a random point of the recording."""
    start_s = random.Random(seed).uniform(0, float(noise.time_s[-1]))
    servers = ReplayedServers(noise, gain, block_s, start_s)
    campaign = Campaign()
    asyncio.run(run_campaign(settings, servers, servers.clock, campaign))
    judgement = campaign.judgements[-1]
    estimate = judgement.difference[settings.primary]
    return {
        "seed": seed,
        "verdict": judgement.verdict.value,
        "relative": _rounded(estimate.relative),
        "low": _rounded(estimate.low),
        "high": _rounded(estimate.high),
        "minutes": round((servers.clock() - start_s) / 60, 3),
        "num_rounds": judgement.num_rounds,
        "num_looks": len(campaign.judgements),
    }


def student_interval(differences: Sequence[float], error: float) -> tuple[float, float] | None:
    """Student's interval of the mean, in place of `signed_rank_interval`."""
    from scipy import stats

    n = len(differences)
    if n < 3:
        return None
    mean = statistics.fmean(differences)
    half = float(stats.t.ppf(1 - error / 2, n - 1)) * statistics.stdev(differences) / math.sqrt(n)
    return mean - half, mean + half


@contextlib.contextmanager
def deciding_by(method: str) -> Iterator[None]:
    """The interval and the estimate of the method while the context lasts."""
    if method == "signed rank":
        yield
        return
    with (
        mock.patch.object(verdict_module, "signed_rank_interval", student_interval),
        mock.patch.object(verdict_module, "hodges_lehmann", statistics.fmean),
    ):
        yield


def run_cell(
    noise: Noise, method: str, block_s: float, gain: float, arguments: argparse.Namespace
) -> dict[str, Any]:
    """All comparisons of one method, block duration and gain."""
    num = arguments.comparisons if gain == 0 else arguments.power_comparisons
    figure = Figure(arguments.figure)
    with deciding_by(method):
        outcomes = [
            compare_once(
                noise, gain, block_s, seed,
                CampaignSettings(figure, 0.03, arguments.error, 60 * arguments.minutes, seed),
            )
            for seed in range(num)
        ]  # fmt: skip
    # B needs 1 / (1 + gain) of the time.
    truth = gain if figure.more_is_faster else 1 / (1 + gain) - 1
    right = "no_difference" if gain == 0 else "faster" if gain > 0 else "slower"
    return {
        "method": method,
        "block_s": block_s,
        "gain": gain,
        "num_comparisons": num,
        "num_right": sum(o["verdict"] == right for o in outcomes),
        "num_alarms": sum(o["verdict"] in ("faster", "slower") for o in outcomes),
        "num_wrong_sign": sum(
            o["verdict"] == {"faster": "slower", "slower": "faster"}.get(right) for o in outcomes
        ),
        "num_covered": sum(
            o["low"] is not None and o["low"] <= truth <= o["high"] for o in outcomes
        ),
        "median_minutes": statistics.median(o["minutes"] for o in outcomes),
        "outcomes": outcomes,
    }


def describe_noise(noise: Noise) -> dict[str, float]:
    """Length, and the spread of the machine's pace over stretches of 1, 10 and 60 s."""
    spread = {}
    for stretch_s in (1.0, 10.0, 60.0):
        starts = np.arange(0.0, float(noise.time_s[-1]) - stretch_s, stretch_s)
        done = np.interp(starts + stretch_s, noise.time_s, noise.work_s) - np.interp(
            starts, noise.time_s, noise.work_s
        )
        spread[f"relative_sd_{stretch_s:g}_s"] = float(np.std(done) / np.mean(done))
    return {"minutes": float(noise.time_s[-1]) / 60, **spread}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 5)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--comparisons", type=int, default=200, help="of equal servers, per cell")
    parser.add_argument("--power-comparisons", type=int, default=100, help="per cell")
    parser.add_argument("--minutes", type=float, default=10.0, help="bound on a comparison")
    parser.add_argument("--error", type=float, default=0.01, help="1 - confidence")
    parser.add_argument("--figure", default=Figure.OUTPUT_TOKENS_PER_S.value, choices=list(Figure))
    parser.add_argument("--blocks", type=float, nargs="+", default=list(BLOCKS_S), metavar="S")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    today = time.strftime("%Y-%m-%d", time.gmtime())
    result = ResultFile(
        arguments.results / f"compare-power-{today}.json.gz", allow_dirty=arguments.allow_dirty
    )
    folder = Path(__file__).parent / "results"
    noise = load_noise([read_result(folder / name) for name in RECORDINGS])
    document: dict[str, Any] = {
        "schema_version": 1,
        "kind": "compare power",
        "environment": asdict(describe_environment(sys.argv)),
        "recordings": list(RECORDINGS),
        "noise": describe_noise(noise),
        "settings": {
            "figure": arguments.figure,
            "minutes": arguments.minutes,
            "error": arguments.error,
            "margin": 0.03,
        },
        "cells": [],
    }
    print(document["noise"], flush=True)
    for method in arguments.methods:
        for block_s in arguments.blocks:
            for gain in GAINS:
                cell = run_cell(noise, method, block_s, gain, arguments)
                document["cells"].append(cell)
                print(
                    f"{method:12} {block_s:4g} s  {100 * gain:+.0f} %: "
                    f"{cell['num_right']} right, {cell['num_alarms']} alarms, "
                    f"{cell['num_covered']} covered of {cell['num_comparisons']}, "
                    f"{cell['median_minutes']:.1f} min",
                    flush=True,
                )
    result.write(document)
    print(f"written: {result.path}")


if __name__ == "__main__":
    main()
