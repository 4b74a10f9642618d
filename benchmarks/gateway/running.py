"""What every run uses: connections, a client without GC pauses, and the CPU time of each part."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import urlsplit

import psutil

from benchmarks.gateway.sse_client import Pool
from benchmarks.servers import Server, cpu_time_s

_IDLE_TIMEOUT_S = 120.0
_REQUESTS = re.compile(r"^vllm:num_requests_(?:running|waiting)\{[^}]*\} (\S+)$", re.MULTILINE)


def scheduling() -> str:
    """How the system schedules this process and its children."""
    policies = {os.SCHED_OTHER: "normal", os.SCHED_FIFO: "real-time (FIFO)",
                os.SCHED_RR: "real-time (round robin)"}  # fmt: skip
    policy = os.sched_getscheduler(0)
    return policies.get(policy, str(policy))


def pool_of(server: Server) -> Pool:
    address = urlsplit(server.url)
    return Pool(address.hostname or "", address.port or 0)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Disable the garbage collector of the client, whose pauses would look like latency."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def wait_until_idle(engines: Sequence[Server]) -> None:
    """Wait until the replicas have no requests of the previous run; some gateways do not abort."""
    deadline_s = time.monotonic() + _IDLE_TIMEOUT_S
    while any(_num_requests(engine) for engine in engines):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"the replicas were not idle within {_IDLE_TIMEOUT_S:g} s")
        time.sleep(0.2)


def _num_requests(engine: Server) -> float:
    with urllib.request.urlopen(f"{engine.url}/metrics", timeout=5) as answer:
        metrics = answer.read().decode()
    return sum(float(value) for value in _REQUESTS.findall(metrics))


def cpu_mark(gateway: Server | None, engines: Sequence[Server]) -> dict[str, float]:
    """The CPU seconds that each part has used, and the time."""
    own, machine = os.times(), psutil.cpu_times()
    return {
        "clock": own.elapsed,
        "client": own.user + own.system,
        "gateway": cpu_time_s(gateway) if gateway is not None else 0.0,
        "replicas": sum(map(cpu_time_s, engines)),
        "machine": sum(machine) - machine.idle - machine.iowait - machine.guest,
    }


def cores_used(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Cores used between two marks; `machine` covers all processes."""
    passed_s = after["clock"] - before["clock"]
    return {
        part: round((after[part] - before[part]) / passed_s, 3) for part in after if part != "clock"
    }
