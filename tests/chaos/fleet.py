"""A real gateway over mock replicas: start them, inject faults, and read what each replica did.

The gateway is `paceline serve` and the replicas are `paceline mock-vllm`, each a process of its
own. The replicas' request logs share no code with the gateway.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
from polling import wait_until

from chaos.authorization import authorization
from chaos.gateway_process import HTTP, GatewayProcess, start_gateway
from paceline.testing.mock_vllm import (
    RequestRecord,
    SpawnedMockVllm,
    read_request_log,
    spawn_mock_vllm,
)

MODEL = "known"
MAX_MODEL_LEN = 4096
FAST_DETECTION: dict[str, Any] = {
    "fleet": {"poll_period_s": 0.2, "poll_timeout_s": 1.0, "load_period_s": 0.2},
    "failures": {"max_open_s": 1, "silence_s": 1.0, "first_silence_s": 1.5},
    "server": {
        "stall_timeout_s": 1.5,
        "granted_fields": ["ignore_eos"],
        "drain_timeout_s": 20,
        "lame_duck_s": 0,
        "workers": 1,  # for any number of cores; test_workers.py tests several workers
    },
}
"""Settings with which a gateway detects failures in a second instead of half a minute."""


@dataclass
class Fleet:
    """A gateway over mock replicas."""

    gateway: GatewayProcess
    mock_vllms: list[SpawnedMockVllm]
    request_logs: list[Path]
    key: str = ""
    """The API key of the test's requests; empty where keys are off."""
    keys: dict[str, str] = field(default_factory=dict)
    """The keys of all tenants."""
    styles: list[str] = field(default_factory=list)
    """How the replicas write their answers; empty where all do so as vLLM does."""

    def add_fault(self, replica: int, **fault: Any) -> None:
        """Add a fault to a replica; the fields are those of `paceline.testing.mock_vllm.Fault`."""
        answer = HTTP.post(f"{self.mock_vllms[replica].url}/mock_vllm/faults", json=[fault])
        assert answer.status_code == 200, answer.text

    def clear_faults(self) -> None:
        """Clear the faults of all replicas that are alive."""
        for mock_vllm in self.mock_vllms:
            if mock_vllm.returncode is None:
                with contextlib.suppress(httpx.HTTPError):  # it may be dying
                    HTTP.delete(f"{mock_vllm.url}/mock_vllm/faults", timeout=60)

    def restore(self) -> None:
        """Clear faults, restart dead replicas, and wait until all are ready and idle."""
        for mock_vllm in self.mock_vllms:
            mock_vllm.resume()
        self.clear_faults()
        wait_until(self._all_are_ready, within_s=60)
        wait_until(lambda: self.gateway.num_in_flight == 0)
        wait_until(self._breakers_close, within_s=60)

    def _all_are_ready(self) -> bool:
        """Restarts dead replicas each time: one may have been dying when it was looked at."""
        for mock_vllm in self.mock_vllms:
            if mock_vllm.returncode is not None:
                mock_vllm.start()
        states = [replica["state"] for replica in self.gateway.replicas()]
        return states.count("ready") >= len(self.mock_vllms)

    def _breakers_close(self) -> bool:
        states = {
            name: value
            for name, value in self.gateway.metrics().items()
            if name.startswith("paceline_breaker_state")
        }
        if not any(states.values()):
            return True
        # A half-open breaker admits one request at a time, and equal replicas are tried in order.
        with ThreadPoolExecutor(2 * len(self.mock_vllms)) as threads:
            list(threads.map(self._send_small_request, range(2 * len(self.mock_vllms))))
        return False

    def _send_small_request(self, number: int) -> None:
        body = {"model": MODEL, "prompt": f"try {number}", "max_tokens": 8}
        headers = authorization(self.key)
        HTTP.post(f"{self.gateway.url}/v1/completions", json=body, headers=headers, timeout=60)

    def records(self) -> list[RequestRecord]:
        """The records of all replicas, of all processes of each."""
        return [
            record for request_log in self.request_logs for record in read_request_log(request_log)
        ]

    def ended_records(self, within_s: float = 60.0) -> list[RequestRecord]:
        """The records of all replicas, once every request of a running replica has ended.

        A replica writes the end of a request after its client has the answer. One that was killed
        or stopped writes nothing more. Raises `TimeoutError` after `within_s`.
        """
        wait_until(lambda: not self._open_records(), within_s)
        return self.records()

    def _open_records(self) -> list[RequestRecord]:
        running = {
            mock_vllm.pid
            for mock_vllm in self.mock_vllms
            if mock_vllm.returncode is None
            and psutil.Process(mock_vllm.pid).status() != psutil.STATUS_STOPPED
        }
        return [one for one in self.records() if one.ending is None and one.pid in running]

    def num_started(self, name: str, replica: int | None = None) -> int:
        """Count the requests whose id starts with `name` and that a replica has begun to answer.

        With `replica`, only its own records count.
        """
        logs = self.request_logs if replica is None else [self.request_logs[replica]]
        records = [record for log in logs for record in read_request_log(log)]
        return sum(r.first_token_s is not None and r.request_id.startswith(name) for r in records)

    def records_of(self, request_id: str) -> list[RequestRecord]:
        found = [record for record in self.records() if record.request_id == request_id]
        return sorted(found, key=lambda record: record.begun_s)

    def load(self, replica: int) -> tuple[float, float, float]:
        """Running sequences, waiting sequences and KV cache usage, from the replica's metrics."""
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
    keeps_request_log: bool = True,
    replica_flags: Sequence[Sequence[str]] = (),
    key: str = "",
) -> Iterator[Fleet]:
    """Start replicas with these flags and a gateway with this configuration; waits until ready.

    `replica_flags` are further flags of each replica. `key` is needed where the configuration has
    keys. Without `keeps_request_log`, replicas keep their last 20,000 records in memory only.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        request_logs = [folder / f"requests-{index}.jsonl" for index in range(num_replicas)]
        mock_vllms = [
            stack.enter_context(
                spawn_mock_vllm(
                    *("--model", MODEL, "--max-model-len", str(MAX_MODEL_LEN)),
                    *(("--request-log", str(request_log)) if keeps_request_log else ()),
                    *flags,
                    *own_flags,
                )
            )
            for request_log, own_flags in zip(
                request_logs, replica_flags or [()] * num_replicas, strict=True
            )
        ]
        replicas = [
            {"url": mock_vllm.url, "name": f"r{index}"}
            for index, mock_vllm in enumerate(mock_vllms)
        ]
        settings = {**merged(FAST_DETECTION, config or {}), "replicas": replicas}
        gateway = stack.enter_context(start_gateway(folder, settings, "--replicas", "0"))
        gateway.wait_ready(num_replicas, within_s=60)
        yield Fleet(gateway, mock_vllms, request_logs, key)


def merged(config: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Merge two configurations section by section."""
    names: Sequence[str] = [*config, *(name for name in changes if name not in config)]
    return {name: {**config.get(name, {}), **changes.get(name, {})} for name in names}
