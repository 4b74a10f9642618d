"""Render the report of `overload` as markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.gateway.arms import PACELINE
from benchmarks.gateway.records import spread
from benchmarks.results_file import read_result


def render_report(path: Path) -> str:
    """The report of the result file `path`."""
    document = read_result(path)
    environment, replicas, promise = (
        document[name] for name in ("environment", "replicas", "promise")
    )
    runs = document["runs"]
    peak = max(_goodput(runs, PACELINE, load)["median"] for load in _loads(runs, PACELINE))
    lines = [
        "# Goodput under overload",
        "",
        f"{environment['date_utc']}, {environment['cpu_model']}, "
        f"{environment['num_logical_cores']} cores for client, gateway and replicas together, "
        f"scheduling {document['scheduling']}; "
        f"Paceline {environment['paceline']}, vllm-router {document['versions']['vllm-router']}. "
        f"Raw: [{path.name}]({path.name}). Command: `{environment['command']}`.",
        "",
        f"{replicas['count']} replicas of {replicas['max_num_seqs']} slots, "
        f"{replicas['tpot_ms']:g} ms per token, {document['shape']['min_tokens']} to "
        f"{document['shape']['max_tokens']} tokens: {document['capacity_per_s']:.1f} requests/s. "
        f"Promise: first token within {promise['ttft_s']:g} s and the whole answer within "
        f"{promise['total_s']:g} s of the arrival. Queue wait at most "
        f"{document['queue_wait_s']:g} s. Median of {len({run['repeat'] for run in runs})} repeats "
        f"of {document['seconds']:g} s (lowest to highest). `refusal` times are those of requests "
        "refused at once.",
        "",
        "| | load | offered/s | goodput/s | of Paceline's peak | refused at once | after waiting | "
        "refusal p50, p99 ms | TTFT p50, p99 ms | gateway cores |",
        "|---" * 10 + "|",
    ]
    for arm in dict.fromkeys(run["arm"] for run in runs):
        for load in _loads(runs, arm):
            own = [run for run in runs if (run["arm"], run["load"]) == (arm, load)]
            lines.append(_row(arm, load, own, peak))
    return "\n".join(lines) + "\n"


def _row(arm: str, load: float, own: Sequence[Mapping[str, Any]], peak: float) -> str:
    good = spread([run["goodput_per_s"] for run in own])
    cells = [
        arm,
        f"{load:g}x",
        f"{median(run['offered_per_s'] for run in own):.1f}",
        f"{good['median']:.1f} ({good['lowest']:.1f} to {good['highest']:.1f})",
        f"{100 * good['median'] / peak:.0f} %",
        str(sum(run["num_refused_at_once"] for run in own)),
        str(sum(run["num_refused_after_waiting"] for run in own)),
        _pair(own, "refusal_ms"),
        _pair(own, "ttft_ms"),
        f"{median(run['cores']['gateway'] for run in own):.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def _pair(own: Sequence[Mapping[str, Any]], measure: str) -> str:
    cells = []
    for name in ("p50", "p99"):
        values = [run[measure][name] for run in own if run[measure]]
        if values:
            low, high = min(values), max(values)
            cells.append(f"{median(values):.1f} ({low:.1f} to {high:.1f})")
    return ", ".join(cells)


def _goodput(runs: Sequence[Mapping[str, Any]], arm: str, load: float) -> dict[str, float]:
    return spread(
        [run["goodput_per_s"] for run in runs if (run["arm"], run["load"]) == (arm, load)]
    )


def _loads(runs: Sequence[Mapping[str, Any]], arm: str) -> list[float]:
    return sorted({run["load"] for run in runs if run["arm"] == arm})
