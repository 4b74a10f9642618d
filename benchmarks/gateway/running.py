"""What does every run need: connections, a client that does not pause, and who used the cores?"""

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
    """How the system schedules this process and those that it starts."""
    policies = {os.SCHED_OTHER: "normal", os.SCHED_FIFO: "real-time (FIFO)",
                os.SCHED_RR: "real-time (round robin)"}  # fmt: skip
    policy = os.sched_getscheduler(0)
    return policies.get(policy, str(policy))


def pool_of(server: Server) -> Pool:
    address = urlsplit(server.url)
    return Pool(address.hostname or "", address.port or 0)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """No collection of Python's in the client; it would look like latency."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def wait_until_idle(engines: Sequence[Server]) -> None:
    """Until the replicas have nothing left of the run before; some gateways do not abort."""
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
    """CPU seconds so far of each part, and the time."""
    own, machine = os.times(), psutil.cpu_times()
    return {
        "clock": own.elapsed,
        "client": own.user + own.system,
        "gateway": cpu_time_s(gateway) if gateway is not None else 0.0,
        "replicas": sum(map(cpu_time_s, engines)),
        "machine": sum(machine) - machine.idle - machine.iowait - machine.guest,
    }


def cores_used(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Between two marks; `machine` is everybody's."""
    passed_s = after["clock"] - before["clock"]
    return {
        part: round((after[part] - before[part]) / passed_s, 3) for part in after if part != "clock"
    }
