"""Which of several server configurations is faster, by how much, and how surely?

Starts every server, then gives each arm the same requests in turn (A B A B ...), so that what
drifts on the machine meets all arms alike. All servers stay up; only one is under load, and the
CPU time the idle ones burn is measured first. The first arm is the baseline of every ratio.

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
of `paceline.bench.run.RunConfig`; its seed grows by one with each repeat. Arms that share a
server also share its prefix cache: start that server with prefix caching off.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aiohttp
import psutil

from paceline.bench.environment import describe_environment
from paceline.bench.progress import terminal_progress
from paceline.bench.report import write_document
from paceline.bench.run import RunConfig, RunResult, measure

START_TIMEOUT_S = 300.0
STOP_TIMEOUT_S = 30.0
IDLE_WATCH_S = 3.0
MAX_IDLE_CORES = 0.05
"""Above it an idle server disturbs the one under load; chosen by hand."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server and where it listens."""

    name: str
    process: subprocess.Popen[bytes]
    url: str
    admin_url: str
    log: Path


def start_server(name: str, plan: Mapping[str, Any], log_folder: Path) -> Server:
    """Start it in a session of its own on two free ports; its output goes to a file."""
    port = free_port_pair()
    admin_port = port + 1
    command = [
        word.replace("{port}", str(port)).replace("{admin_port}", str(admin_port))
        for word in plan["command"]
    ]
    log = log_folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **plan.get("env", {})},
            start_new_session=True,
        )
    address = "http://127.0.0.1"
    return Server(name, process, f"{address}:{port}", f"{address}:{admin_port}", log)


async def wait_until_ready(server: Server, session: aiohttp.ClientSession) -> None:
    """Return once it can serve; raise when it ends or takes too long.

    Paceline says so under /ready; a bare vLLM has no such route and lists its models once it can.
    """
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s:
        if (code := server.process.poll()) is not None:
            raise RuntimeError(f"server {server.name} ended with {code}; see {server.log}")
        with contextlib.suppress(aiohttp.ClientError, TimeoutError):
            status = await _status(session, f"{server.url}/ready")
            if status == 404:
                status = await _status(session, f"{server.url}/v1/models")
            if status == 200:
                return
        await asyncio.sleep(0.5)
    raise RuntimeError(f"server {server.name} was not ready in {START_TIMEOUT_S:g} s")


async def _status(session: aiohttp.ClientSession, url: str) -> int:
    async with session.get(url) as response:
        return response.status


def stop_server(server: Server) -> None:
    """Ask it to end, then make sure of every process it started."""
    family = descendants(server)
    server.process.terminate()
    try:
        server.process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        server.process.kill()
        server.process.wait()
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def descendants(server: Server) -> list[psutil.Process]:
    try:
        return psutil.Process(server.process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def cpu_time_s(server: Server) -> float:
    """CPU time so far of the server and all its descendants."""
    total_s = 0.0
    for process in [psutil.Process(server.process.pid), *descendants(server)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total_s += times.user + times.system
    return total_s


def watch_idle(servers: Sequence[Server]) -> dict[str, float]:
    """Cores that each server burns while nobody asks it anything."""
    before_s = {server.name: cpu_time_s(server) for server in servers}
    time.sleep(IDLE_WATCH_S)
    return {s.name: (cpu_time_s(s) - before_s[s.name]) / IDLE_WATCH_S for s in servers}


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
    """Per load and arm: figure / baseline's figure of the same repeat, with median and range.

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


def free_port_pair() -> int:
    """A free port whose successor is free too.

    The bench looks for counters on the port after the data port: it must not be another server's.
    """
    for _ in range(100):
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            with contextlib.suppress(OSError, OverflowError):
                second.bind(("127.0.0.1", port + 1))
                return port
    raise RuntimeError("no two neighbouring ports of 127.0.0.1 are free")


@contextlib.contextmanager
def running_servers(plan: Mapping[str, Any], log_folder: Path) -> Iterator[dict[str, Server]]:
    """Every server of the plan, started one after the other; all ended on leaving."""
    servers: dict[str, Server] = {}
    try:
        for name, server_plan in plan["servers"].items():
            print(f"starting {name}: {' '.join(server_plan['command'])}", flush=True)
            servers[name] = start_server(name, server_plan, log_folder)
            asyncio.run(_ready(servers[name]))
        yield servers
    finally:
        for server in servers.values():
            stop_server(server)


async def _ready(server: Server) -> None:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session:
        await wait_until_ready(server, session)


def run_plan(
    plan: Mapping[str, Any], log_folder: Path, save: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Carry out the whole plan; the document, which is also saved after every repeat."""
    environment = describe_environment(sys.argv)
    runs: list[dict[str, Any]] = []
    with running_servers(plan, log_folder) as servers:
        idle_cores = watch_idle(list(servers.values()))
        for name, cores in idle_cores.items():
            warning = " (more than allowed: ratios are in doubt)" if cores > MAX_IDLE_CORES else ""
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
    parser.add_argument("plan", type=Path, help="JSON file; its shape is at the head of this file")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    arguments = parser.parse_args()
    plan = json.loads(arguments.plan.read_text(encoding="utf-8"))
    # Servers are ended in `finally`, which a plain SIGTERM would skip.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    logs = Path(tempfile.mkdtemp(prefix="paired-"))
    print(f"logs of the servers: {logs}")
    target = arguments.results / f"{plan['name']}-{time.strftime('%Y-%m-%d', time.gmtime())}.json"
    document = run_plan(plan, logs, lambda document: write_document(target, document))
    for item in document["comparisons"]:
        print(
            f"{item['load']}: {item['arm']} / {item['baseline']}, {item['figure']}: "
            f"{item['median']:.3f} (min {item['min']:.3f}, max {item['max']:.3f}, "
            f"{len(item['ratios'])} repeats)"
        )
    print(f"written: {target}")
    if any(run["summary"]["num_errors"] for run in document["runs"]):
        sys.exit("Error: requests failed; the comparison does not count.")


if __name__ == "__main__":
    main()
