"""Simulated replicas behind a real gateway: how are they made to fail, and what did they do?

The gateway is `paceline serve`, the replicas are `paceline mock-vllm`, each a process of its own.
What a replica did is read from its own ledger, which shares no code with the gateway.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from chaos.served import HTTP, Served, serve
from paceline.mock_vllm import RequestRecord, SpawnedMockVllm, read_request_log, spawn_mock_vllm

MODEL = "known"
MAX_MODEL_LEN = 4096
FAST_TO_NOTICE: dict[str, Any] = {
    "fleet": {"poll_period_s": 0.2, "poll_timeout_s": 1.0, "load_period_s": 0.2},
    "failures": {"max_open_s": 1, "silence_s": 1.0, "first_silence_s": 1.5},
    "server": {
        "stall_timeout_s": 1.5,
        "granted_fields": ["ignore_eos"],
        "drain_timeout_s": 20,
        "workers": 1,  # however many cores there are; several are tested in test_workers.py
    },
}
"""What makes a gateway notice in a second what it would else notice in half a minute."""


@dataclass
class Fleet:
    """A gateway over simulated replicas."""

    served: Served
    mock_vllms: list[SpawnedMockVllm]
    ledgers: list[Path]

    def set_fault(self, replica: int, **fault: Any) -> None:
        """As one line of a fault script; see `paceline.mock_vllm.faults.fault_book`."""
        answer = HTTP.post(f"{self.mock_vllms[replica].url}/mock_vllm/faults", json=[fault])
        assert answer.status_code == 200, answer.text

    def clear_faults(self) -> None:
        """Of all replicas that are alive."""
        for mock_vllm in self.mock_vllms:
            if mock_vllm.returncode is None:
                with contextlib.suppress(httpx.HTTPError):  # it may be dying
                    HTTP.delete(f"{mock_vllm.url}/mock_vllm/faults", timeout=2)

    def settle(self) -> None:
        """No faults, all replicas alive and ready, no breaker open, nothing in flight."""
        for mock_vllm in self.mock_vllms:
            mock_vllm.resume()
        self.clear_faults()
        for mock_vllm in self.mock_vllms:
            if mock_vllm.returncode is not None:
                mock_vllm.start()
        self.served.wait_ready(len(self.mock_vllms), within_s=60)
        until(lambda: self.served.num_in_flight == 0)
        until(self._breakers_close, within_s=60)

    def _breakers_close(self) -> bool:
        states = {
            name: value
            for name, value in self.served.metrics().items()
            if name.startswith("paceline_breaker_state")
        }
        if not any(states.values()):
            return True
        # A replica that was out is tried by one request at a time; equals are taken in order.
        with ThreadPoolExecutor(2 * len(self.mock_vllms)) as threads:
            list(threads.map(self._ask_little, range(2 * len(self.mock_vllms))))
        return False

    def _ask_little(self, number: int) -> None:
        body = {"model": MODEL, "prompt": f"try {number}", "max_tokens": 8}
        HTTP.post(f"{self.served.url}/v1/completions", json=body, timeout=10)

    def records(self) -> list[RequestRecord]:
        """What all replicas did, all processes of each."""
        return [record for ledger in self.ledgers for record in read_request_log(ledger)]

    def records_of(self, request_id: str) -> list[RequestRecord]:
        found = [record for record in self.records() if record.request_id == request_id]
        return sorted(found, key=lambda record: record.begun_s)

    def load(self, replica: int) -> tuple[float, float, float]:
        """Running, waiting and KV use, as the replica tells it."""
        page = HTTP.get(f"{self.mock_vllms[replica].url}/metrics").text
        return tuple(_sample(page, name) for name in _LOAD)  # type: ignore[return-value]

    def loads(self) -> list[tuple[float, float, float]]:
        return [self.load(replica) for replica in range(len(self.mock_vllms))]


_LOAD = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
IDLE = (0.0, 0.0, 0.0)


def _sample(page: str, name: str) -> float:
    (line,) = (line for line in page.splitlines() if line.startswith(name + "{"))
    return float(line.rpartition(" ")[2])


@contextlib.contextmanager
def running_fleet(
    num_replicas: int = 2,
    *flags: str,
    config: dict[str, Any] | None = None,
    keeps_ledger: bool = True,
) -> Iterator[Fleet]:
    """Replicas with these flags, and a gateway with this configuration, ready.

    Without a ledger they remember their last 20,000 requests alone.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        ledgers = [folder / f"ledger-{place}.jsonl" for place in range(num_replicas)]
        mock_vllms = [
            stack.enter_context(
                spawn_mock_vllm(
                    *("--model", MODEL, "--max-model-len", str(MAX_MODEL_LEN)),
                    *(("--request-log", str(ledger)) if keeps_ledger else ()),
                    *flags,
                )
            )
            for ledger in ledgers
        ]
        replicas = [
            {"url": mock_vllm.url, "name": f"r{place}"}
            for place, mock_vllm in enumerate(mock_vllms)
        ]
        merged = {**_merged(FAST_TO_NOTICE, config or {}), "replicas": replicas}
        served = stack.enter_context(serve(folder, merged, "--replicas", "0"))
        served.wait_ready(num_replicas, within_s=60)
        yield Fleet(served, mock_vllms, ledgers)


def _merged(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Section by section."""
    names: Sequence[str] = [*config, *(name for name in changes if name not in config)]
    return {name: {**config.get(name, {}), **changes.get(name, {})} for name in names}


def until(condition: Callable[[], bool], within_s: float = 15.0) -> None:
    """Wait for something that happens soon."""
    deadline_s = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"not within {within_s:g} s")
        time.sleep(0.02)
