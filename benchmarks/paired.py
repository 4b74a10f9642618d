"""Compare server configurations in interleaved runs: speed ratios with their spread.

The script starts every server, then gives each arm the same requests in turn (A B A B ...), so that
drift of the machine affects all arms alike. All servers stay up; only one is under load. The CPU
time that idle servers use is measured first. The first arm is the baseline of every ratio.

    python benchmarks/paired.py plan.json --results benchmarks/results

A plan:

    {"name": "speculation-off-and-on",
     "repeats": 5,
     "servers": {
       "plain": {"command": ["paceline", "serve", "--draft", "none",
                             "--port", "{port}", "--admin-port", "{admin_port}"]},
       "drafted": {"command": ["paceline", "serve",
                               "--port", "{port}", "--admin-port", "{admin_port}"],
                   "env": {"OMP_NUM_THREADS": "2"}}},
     "arms": [
       {"name": "off", "server": "plain"},
       {"name": "goodput", "server": "drafted", "governor": {"policy": "goodput"}},
       {"name": "fixed 4", "server": "drafted", "governor": {"draft_length": 4}}],
     "loads": [
       {"name": "predictable, 1", "workload": "predictable", "concurrency": 1,
        "num_requests": 32, "num_warmup": 2},
       {"name": "hard, 8", "workload": "hard", "concurrency": 8,
        "num_requests": 64, "num_warmup": 8}]}

`governor` is sent as PATCH /admin/governor before each run of the arm. A load takes the settings
of `paceline.foundation.load.config.RunConfig`; its seed grows by one with each repeat. `workload`
is a name listed in docs/workloads.md. Arms that share a server also share its prefix cache: start
that server with prefix caching off.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import aiohttp

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.results_file import ResultFile, add_allow_dirty
from benchmarks.servers import MAX_IDLE_CORES, Server, running_servers, watch_idle
from paceline.foundation.load.config import RunConfig
from paceline.foundation.results.environment import describe_environment
from paceline.workbench.bench.run.measure import measure
from paceline.workbench.bench.run.outcome import RunResult
from paceline.workbench.bench.run.progress import terminal_progress


async def run_arm(
    arm: Mapping[str, Any], load: Mapping[str, Any], repeat: int, server: Server
) -> RunResult:
    """Set the governor as the arm says, then measure the load."""
    settings = {k: v for k, v in load.items() if k != "name"}
    config = RunConfig(url=server.url, **settings)
    config = dataclasses.replace(config, seed=config.seed + repeat)
    if "governor" in arm:
        config = dataclasses.replace(config, admin_url=server.admin_url)
        async with (
            aiohttp.ClientSession() as session,
            session.patch(f"{server.admin_url}/admin/governor", json=arm["governor"]) as response,
        ):
            if response.status != 200:
                raise RuntimeError(
                    f"PATCH {arm['governor']} for arm {arm['name']}: {await response.text()}"
                )
    with terminal_progress() as progress:
        return await measure(config, None, sys.argv, progress)


def compare_arms(runs: Sequence[Mapping[str, Any]], baseline: str) -> list[dict[str, Any]]:
    """For each load and arm: figure / baseline's figure of the same repeat, with median and range.

    Output tokens/s above 1 and TPOT below 1 are better than the baseline.
    """
    figures = {
        "output_tokens_per_s": lambda summary: summary["output_tokens_per_s"],
        "tpot_p50": lambda summary: summary["tpot_ms"]["p50"],
        "ttft_p50": lambda summary: summary["ttft_ms"]["p50"],
    }
    values: dict[tuple[str, str, str], dict[int, float | None]] = {}
    for run in runs:
        for name, figure in figures.items():
            key = (run["load"], run["arm"], name)
            values.setdefault(key, {})[run["repeat"]] = figure(run["summary"])
    comparisons = []
    for (load, arm, name), by_repeat in values.items():
        reference = values[load, baseline, name]
        pairs = [(by_repeat[repeat], reference[repeat]) for repeat in sorted(by_repeat)]
        ratios = [mine / theirs for mine, theirs in pairs if mine is not None and theirs]
        if arm != baseline and ratios:
            comparisons.append(
                {
                    "load": load,
                    "arm": arm,
                    "baseline": baseline,
                    "figure": name,
                    "median": statistics.median(ratios),
                    "min": min(ratios),
                    "max": max(ratios),
                    "ratios": ratios,
                }
            )
    return comparisons


def run_plan(
    plan: Mapping[str, Any], log_folder: Path, save: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Carry out the whole plan; the document, which is saved after every repeat."""
    environment = describe_environment(sys.argv)
    runs: list[dict[str, Any]] = []
    with running_servers(plan, log_folder) as servers:
        idle_cores = watch_idle(list(servers.values()))
        for name, cores in idle_cores.items():
            warning = (
                f" (more than {MAX_IDLE_CORES}: ratios are in doubt)"
                if cores > MAX_IDLE_CORES
                else ""
            )
            print(f"{name}: {cores:.3f} cores when idle{warning}")
        for repeat in range(plan.get("repeats", 5)):
            for load in plan["loads"]:
                for arm in plan["arms"]:
                    result = asyncio.run(run_arm(arm, load, repeat, servers[arm["server"]]))
                    run = {"repeat": repeat, "load": load["name"], "arm": arm["name"]}
                    run["summary"] = asdict(result.summary)
                    run["speculation"] = asdict(result.speculation)
                    run["vllm_server"] = result.environment.vllm_server
                    runs.append(run)
                    print(_describe_run(run), flush=True)
            document = {
                "schema_version": 1,
                "kind": "paired benchmark",
                "plan": plan,
                "environment": asdict(environment),
                "idle_cores": idle_cores,
                "comparisons": compare_arms(runs, plan["arms"][0]["name"]),
                "runs": runs,
            }
            save(document)
    return document


def _describe_run(run: Mapping[str, Any]) -> str:
    summary = run["summary"]
    rate, accepted = summary["output_tokens_per_s"], run["speculation"]["acceptance_rate"]
    return (
        f"repeat {run['repeat']}  {run['load']}  {run['arm']}: "
        f"{'unknown' if rate is None else f'{rate:.1f}'} tokens/s, "
        f"{summary['num_errors']} errors, "
        f"acceptance {'unknown' if accepted is None else f'{accepted:.3f}'}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("plan", type=Path, help="JSON file; the docstring of this script shows one")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    add_allow_dirty(parser)
    arguments = parser.parse_args()
    plan = json.loads(arguments.plan.read_text(encoding="utf-8"))
    # Servers are stopped in `finally`, which a plain SIGTERM would skip.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    logs = Path(tempfile.mkdtemp(prefix="paired-"))
    print(f"logs of the servers: {logs}")
    today = time.strftime("%Y-%m-%d", time.gmtime())
    result = ResultFile(
        arguments.results / f"{plan['name']}-{today}.json.gz", allow_dirty=arguments.allow_dirty
    )
    document = run_plan(plan, logs, result.write)
    for item in document["comparisons"]:
        print(
            f"{item['load']}: {item['arm']} / {item['baseline']}, {item['figure']}: "
            f"{item['median']:.3f} (min {item['min']:.3f}, max {item['max']:.3f}, "
            f"{len(item['ratios'])} repeats)"
        )
    print(f"written: {result.path}")
    if any(run["summary"]["num_errors"] for run in document["runs"]):
        sys.exit("Error: requests failed; the comparison is not valid.")


if __name__ == "__main__":
    main()
