"""Carry out a plan: start the servers, tune the table, measure every arm, save after every run."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import uvloop
from tokenizers import Tokenizer

from benchmarks.governor.trace.arms import ARMS, FIXED_ARMS, order_of, tune_table
from benchmarks.governor.trace.load import run_trace
from benchmarks.governor.trace.phase_log import PhaseLog
from benchmarks.governor.trace.phases import TRACE, CountTokens, RequestMaker
from benchmarks.governor.trace.plan import BUNDLED, MAX_NUM_SEQS, with_table
from benchmarks.governor.trace.watch import GovernorWatch
from benchmarks.servers import Server, running_server, watch_idle
from paceline.demo import target_path

WARM_UP_PHASE_S = 1.0
PAUSE_BETWEEN_RUNS_S = 0.5
"""Cancelled requests leave the engine within two steps."""
WARM_UP_REPEAT = 1000
TUNING_REPEAT = 900
"""Numbers that no measured repeat has, so that no prompt order repeats."""
WARM_UP_ARM = FIXED_ARMS[-1]
"""A fixed length, so that the learning policies learn nothing from the warm-up."""

Save = Callable[[Mapping[str, Any]], None]


def carry_out(document: dict[str, Any], save: Save) -> None:
    """Add the runs of the document's plan that the document does not hold yet.

    Raises RuntimeError when a server does not start or a request fails.
    """
    plan = document["plan"]
    count = token_counter(plan["target"])
    logs = Path(tempfile.mkdtemp(prefix="governor-"))
    print(f"logs of the servers: {logs}")
    with contextlib.ExitStack() as stack:
        servers: dict[str, Server] = {}

        def start(name: str, server_plan: Mapping[str, Any]) -> None:
            servers[name] = stack.enter_context(running_server(name, server_plan, logs))

        if "none" in plan["arms"]:
            start("plain", plan["servers"]["plain"])
        drafted = plan["servers"]["drafted"]
        if "table" in plan["arms"]:
            if document["table"] is None:
                with running_server("tuning", drafted, logs) as server:
                    campaign = Campaign(document, save, maker_for(server, plan, count))
                    campaign.warm_up(server, WARM_UP_ARM)
                    campaign.tune(server)
            drafted = with_table(drafted, document["table"])
        start("drafted", drafted)
        campaign = Campaign(document, save, maker_for(servers["drafted"], plan, count))
        for name, server in servers.items():
            campaign.warm_up(server, "none" if name == "plain" else WARM_UP_ARM)
        document["idle_cores"] = watch_idle(list(servers.values()))
        campaign.measure(servers)


class Campaign:
    """Runs arms on running servers and adds their figures to the document."""

    def __init__(self, document: dict[str, Any], save: Save, maker: RequestMaker) -> None:
        self._document = document
        self._plan = document["plan"]
        self._save = save
        self._maker = maker

    def tune(self, server: Server) -> None:
        """Run the tuning pass and derive the table from it."""
        self._document["tuning_runs"] = []
        fixed = [arm for arm in FIXED_ARMS if arm in self._plan["arms"]]
        for number in range(self._plan["tuning_repeats"]):
            for arm in order_of(fixed, TUNING_REPEAT + number):
                run = self._measure(arm, TUNING_REPEAT + number, server)
                self._document["tuning_runs"].append(run)
        runs = self._document["tuning_runs"]
        self._document["table"] = tune_table(runs, TRACE, MAX_NUM_SEQS)
        print(f"table: {self._document['table']}", flush=True)
        self._save(self._document)

    def measure(self, servers: Mapping[str, Server]) -> None:
        """Run all repeats that are not in the document yet."""
        done = {(run["arm"], run["repeat"]) for run in self._document["runs"]}
        for repeat in range(self._plan["repeats"]):
            for arm in order_of(self._plan["arms"], repeat):
                if (arm, repeat) not in done:
                    run = self._measure(arm, repeat, servers[ARMS[arm].server])
                    self._document["runs"].append(run)
                    self._save(self._document)

    def warm_up(self, server: Server, arm: str) -> None:
        """Run a short trace that is not counted: first uses are slow."""
        phase_s = min(WARM_UP_PHASE_S, self._plan["phase_s"])
        self._measure(arm, WARM_UP_REPEAT, server, phase_s)

    def _measure(
        self, arm: str, repeat: int, server: Server, phase_s: float | None = None
    ) -> dict[str, Any]:
        """Run one arm over the trace; RuntimeError if a request fails."""
        time.sleep(PAUSE_BETWEEN_RUNS_S)
        logs, watch = uvloop.run(self._run(arm, repeat, server, phase_s or self._plan["phase_s"]))
        phases = [log.render() for log in logs]
        errors = [error for log in logs for error in log.errors]
        tokens = sum(log.tokens for log in logs)
        print(f"repeat {repeat}  {arm}: {tokens} tokens, {len(errors)} errors", flush=True)
        if errors:
            raise RuntimeError(f"{len(errors)} requests failed under {arm}, e.g. {errors[0]}")
        return {"arm": arm, "repeat": repeat, "phases": phases, "governor": watch.render()}

    async def _run(
        self, arm: str, repeat: int, server: Server, phase_s: float
    ) -> tuple[list[PhaseLog], GovernorWatch]:
        if (change := ARMS[arm].governor) is not None:
            await set_governor(server, change)
        return await run_trace(
            server.url,
            server.admin_url,
            TRACE,
            lambda number, phase: self._maker.requests(number, phase, repeat),
            phase_s=phase_s,
            bucket_s=self._plan["bucket_s"],
        )


def maker_for(server: Server, plan: Mapping[str, Any], count_tokens: CountTokens) -> RequestMaker:
    """A RequestMaker with the model name that this server lists."""
    return RequestMaker(asyncio.run(fetch_model(server)), plan["context_tokens"], count_tokens)


def token_counter(target: str) -> CountTokens:
    """Counts the tokens of a text for the target: a folder, or the bundled one."""
    folder = target_path() if target == BUNDLED else Path(target)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    return functools.cache(lambda text: len(tokenizer.encode(text).ids))


async def set_governor(server: Server, change: Mapping[str, Any]) -> None:
    """PATCH the governor; RuntimeError with the server's answer when it refuses."""
    async with (
        aiohttp.ClientSession() as session,
        session.patch(f"{server.admin_url}/admin/governor", json=change) as response,
    ):
        if response.status != 200:
            raise RuntimeError(f"PATCH {change} to {server.name}: {await response.text()}")


async def fetch_model(server: Server) -> str:
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"{server.url}/v1/models") as response,
    ):
        return str((await response.json())["data"][0]["id"])
