"""Render the report of `added_latency` as markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.gateway.arms import DIRECT, DIRECT_AGAIN
from benchmarks.gateway.records import PERCENTILES, added, percentiles, spread
from benchmarks.results_file import read_result

MIN_REQUESTS_FOR_P99 = 1000
"""With fewer, the percentile is that of less than ten requests, and is not shown."""
SATURATED_CORES = 0.9
"""A gateway of one Python process that uses more of its one core is saturated: its clients wait for
it, and what it adds is the length of its queue."""


def render_report(path: Path) -> str:
    """The report of the result file `path`."""
    document = read_result(path)
    environment = document["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    lines = [
        "# What a gateway adds",
        "",
        f"{environment['date_utc']}, {environment['cpu_model']}, "
        f"{environment['num_logical_cores']} cores for client, gateway and replicas together, "
        f"scheduling {document['scheduling']}; "
        f"Paceline {environment['paceline']}, {versions}, Python {environment['python']}. "
        f"Raw: [{path.name}]({path.name}). Command: `{environment['command']}`.",
        "",
        "Milliseconds: median over the repeats (lowest to highest). *Added* is the gateway's "
        "percentile minus that of direct in the same repeat; `direct again` is a second run of "
        "direct, so what it adds is noise. A p99 of TTFT is that of all repeats together, and is "
        f"shown for {MIN_REQUESTS_FOR_P99:,} requests or more. *Saturated*: the gateway uses more "
        f"than {SATURATED_CORES} cores, and a Python process has one.",
    ]
    for level in document["levels"]:
        lines += ["", *_level_lines(level)]
    return "\n".join(lines) + "\n"


def _level_lines(level: Mapping[str, Any]) -> list[str]:
    shape, runs = level["level"], level["runs"]
    arms = list(dict.fromkeys(run["arm"] for run in sorted(runs, key=lambda run: run["repeat"])))
    arms.sort(key=lambda arm: (arm != DIRECT, arm != DIRECT_AGAIN))
    repeats = len({run["repeat"] for run in runs})
    return [
        f"## {shape['num_streams']} open streams, {shape['tpot_ms']:g} ms per token",
        "",
        f"{shape['min_tokens']} to {shape['max_tokens']} tokens, "
        f"{1000 * shape['num_streams'] / shape['tpot_ms']:.0f} chunks/s in all; "
        f"{level['replicas']['count']} replicas; {repeats} repeats of {shape['seconds']:g} s.",
        "",
        *_table("TTFT", "ttft_ms", arms, runs, ranks=(50, 90)),
        "",
        *_pooled(arms, runs),
        "",
        *_table("Inter-chunk time", "inter_chunk_ms", arms, runs, ranks=PERCENTILES),
        "",
        *_cores(arms, runs),
    ]


def _table(
    title: str,
    measure: str,
    arms: Sequence[str],
    runs: Sequence[Mapping[str, Any]],
    *,
    ranks: Sequence[int],
) -> list[str]:
    names = [f"p{rank}" for rank in ranks]
    head = " | ".join([*names, *(f"added {name}" for name in names)])
    lines = [f"| {title} | {head} |", "|---" * (1 + 2 * len(names)) + "|"]
    for arm in arms:
        own = [run[measure] for run in runs if run["arm"] == arm]
        cells = [_cell(spread([run[name] for run in own])) for name in names]
        cells += [
            "" if arm == DIRECT else _cell(added(runs, arm, DIRECT, measure, name))
            for name in names
        ]
        lines.append(f"| {_named(arm, runs)} | {' | '.join(cells)} |")
    return lines


def _pooled(arms: Sequence[str], runs: Sequence[Mapping[str, Any]]) -> list[str]:
    names = [f"p{rank}" for rank in PERCENTILES]
    lines = [
        f"| TTFT, all repeats together | {' | '.join(names)} | longest | requests |",
        "|---" * (3 + len(names)) + "|",
    ]
    for arm in arms:
        values = [value for run in runs if run["arm"] == arm for value in run["ttfts_ms"]]
        cells = [f"{value:.2f}" for value in percentiles(values).values()]
        if len(values) < MIN_REQUESTS_FOR_P99:
            cells[-1] = "—"
        lines.append(
            f"| {_named(arm, runs)} | {' | '.join(cells)} | {max(values):.2f} | {len(values)} |"
        )
    return lines


def _named(arm: str, runs: Sequence[Mapping[str, Any]]) -> str:
    return f"{arm} (saturated)" if is_saturated(arm, runs) else arm


def is_saturated(arm: str, runs: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the gateway of this arm uses up its core, at the median over the repeats."""
    cores = [run["cores"]["gateway"] for run in runs if run["arm"] == arm]
    return median(cores) > SATURATED_CORES


def _cores(arms: Sequence[str], runs: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [
        "| cores in use | gateway | client | replicas | machine | begun | with a first token | "
        "failed |",
        "|---" * 8 + "|",
    ]
    for arm in arms:
        own = [run for run in runs if run["arm"] == arm]
        cores = [
            f"{median(run['cores'][part] for run in own):.2f}"
            for part in ("gateway", "client", "replicas", "machine")
        ]
        counts = [
            str(sum(run[name] for run in own))
            for name in ("num_begun", "num_with_first_token", "num_failed")
        ]
        lines.append(f"| {arm} | {' | '.join([*cores, *counts])} |")
    return lines


def _cell(value: Mapping[str, float]) -> str:
    return f"{value['median']:.2f} ({value['lowest']:.2f} to {value['highest']:.2f})"
