"""A gateway with a local engine and three remote replicas, and the conditions of all alerts.

Each replica serves a model of its own, so that a request names its replica.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from chaos.fleet import FAST_DETECTION
from chaos.gateway_process import HTTP, GatewayProcess, start_gateway
from chaos.monitoring.governed_engine import MODEL, Script
from paceline.testing.mock_vllm import MockVllm, MockVllmSettings

REMOTES = {
    "full": MockVllmSettings(
        model="full", max_model_len=512, max_num_seqs=1, num_kv_blocks=33, tpot_ms=100
    ),
    "broken": MockVllmSettings(model="broken", tpot_ms=1),
    "stuck": MockVllmSettings(model="stuck", prefill_tokens_per_s=5),
}
_PROMPT_FOR_480_OF_528_TOKENS = [7] * 485
"""31 of 33 blocks of the replica `full`: 94 % of its KV cache."""
_PROMPT_FOR_400_S = [7] * 2000
"""Of prefill, on the replica `stuck`."""


@dataclass(frozen=True)
class MonitoredGateway:
    """The running gateway; its methods create the conditions of alerts."""

    gateway: GatewayProcess
    remotes: Mapping[str, str]
    """The URLs of the remote replicas."""
    folder: Path
    threads: ThreadPoolExecutor

    def send(self, model: str, url: str | None = None, **fields: Any) -> None:
        """Send a request and ignore how it ends."""
        body = {"model": model, "prompt": "x", "max_tokens": 20, "ignore_eos": True, **fields}
        with contextlib.suppress(httpx.HTTPError):
            HTTP.post(f"{url or self.gateway.url}/v1/completions", json=body, timeout=400)

    def send_load(self, num_streams: int = 8) -> None:
        """Streams to the governed engine; returns when they have ended."""
        list(self.threads.map(lambda _: self.send(MODEL, stream=True), range(num_streams)))

    def patch(self, path: str, change: Mapping[str, Any]) -> None:
        answer = HTTP.patch(f"{self.gateway.admin_url}{path}", json=change)
        assert answer.status_code == 200, answer.text

    def run_steps(self, **script: Any) -> None:
        """Change how the steps of the engine go."""
        Script(**script).write(self.folder / "script.json")

    def hold_a_request_in_prefill(self) -> None:
        url = self.remotes["stuck"]
        self.threads.submit(self.send, "stuck", url, prompt=_PROMPT_FOR_400_S)

    def fill_the_kv_cache(self) -> None:
        """Four requests of two seconds each for the one slot of `full`: three of them wait."""
        for _ in range(4):
            prompt = _PROMPT_FOR_480_OF_528_TOKENS
            self.threads.submit(self.send, "full", prompt=prompt)

    def fail_requests(self) -> None:
        fault = [{"kind": "status", "status": 500}]
        HTTP.post(f"{self.remotes['broken']}/mock_vllm/faults", json=fault)
        for _ in range(12):
            self.send("broken")
        self.threads.submit(self._keep_failing, 15.0)

    def misdirect_requests(self) -> None:
        """A redirect at the address of the replica, as of a login page."""
        url = f"{self.remotes['broken']}/mock_vllm/faults"
        HTTP.delete(url)
        HTTP.post(url, json=[{"kind": "status", "status": 302}])
        self.threads.submit(self._keep_failing, 15.0)

    def fail_health_checks(self) -> None:
        fault = [{"kind": "status", "status": 500, "route": "health"}]
        HTTP.post(f"{self.remotes['broken']}/mock_vllm/faults", json=fault)

    def _keep_failing(self, seconds: float) -> None:
        """Without requests the breaker stays half open, and a scrape may miss that it opened."""
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            self.send("broken")
            # sleep: requests come again and again; at which rate decides nothing
            time.sleep(0.05)

    def reject_drafts(self) -> None:
        """A fixed length keeps drafting; many requests outweigh what was accepted before."""
        self.run_steps(acceptance=0.2, num_requests=64)
        self.patch("/admin/governor", {"draft_length": 4})

    def break_the_policy(self) -> None:
        self.patch("/admin/governor", {"policy": "threshold"})

    def shift_acceptance(self) -> None:
        self.run_steps(num_shifts=1)

    def kill_the_engine(self) -> None:
        os.kill(int((self.folder / "engine.pid").read_text()), signal.SIGKILL)

    def drain_all(self) -> None:
        for name in ("engine-0", *self.remotes):
            self.patch("/admin/replicas", {"name": name, "draining": True})

    def kill_the_gateway(self) -> None:
        self.gateway.process.kill()


CONDITIONS: Sequence[tuple[Callable[[MonitoredGateway], None], tuple[str, ...]]] = (
    (MonitoredGateway.hold_a_request_in_prefill, ("PacelineNoProgress",)),
    (
        MonitoredGateway.fill_the_kv_cache,
        ("PacelineKvCacheNearlyFull", "PacelineQueueSlow"),
    ),
    (
        MonitoredGateway.fail_requests,
        ("PacelineBreakerOpen", "PacelineErrorBudgetBurnsFast", "PacelineErrorBudgetBurns"),
    ),
    (MonitoredGateway.misdirect_requests, ("PacelineReplicaMisdirected",)),
    (MonitoredGateway.fail_health_checks, ("PacelineReplicaDown",)),
    (MonitoredGateway.reject_drafts, ("PacelineAcceptanceLow",)),
    (MonitoredGateway.break_the_policy, ("PacelineGovernorFailing",)),
    (MonitoredGateway.shift_acceptance, ("PacelineDraftNoLongerFits",)),
    (MonitoredGateway.kill_the_engine, ("PacelineEngineRestarted",)),
    (MonitoredGateway.drain_all, ("PacelineNoReplicaReady",)),
    (MonitoredGateway.kill_the_gateway, ("PacelineGatewayDown",)),
)
"""Each condition with its alerts, in an order in which none prevents a later one."""


@contextlib.contextmanager
def running_gateway(folder: Path) -> Iterator[MonitoredGateway]:
    """Start everything; all replicas are ready."""
    Script().write(folder / "script.json")
    program = f"from chaos.monitoring.serve_with_engine import serve; serve({str(folder)!r})"
    with contextlib.ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(16))  # ends last: its requests end first
        remotes = stack.enter_context(_running_remotes())
        replicas = [{"url": url, "name": name} for name, url in remotes.items()]
        replicas[0]["max_in_flight"] = 1
        failures = {**FAST_DETECTION["failures"], "min_samples": 2}
        gateway = stack.enter_context(
            start_gateway(
                folder,
                {**FAST_DETECTION, "failures": failures, "replicas": replicas},
                *("--replicas", "0"),
                program=program,
            )
        )
        stack.callback(gateway.process.kill)
        gateway.wait_ready(1 + len(remotes), within_s=60)
        yield MonitoredGateway(gateway, remotes, folder, threads)


@contextlib.contextmanager
def _running_remotes() -> Iterator[dict[str, str]]:
    """Mock replicas in a thread of this process: name to URL."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    servers = {name: MockVllm(settings) for name, settings in REMOTES.items()}
    try:
        for server in servers.values():
            asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(60)
        yield {name: server.url for name, server in servers.items()}
    finally:
        for server in servers.values():
            asyncio.run_coroutine_threadsafe(server.__aexit__(), loop).result(60)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
