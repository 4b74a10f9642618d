"""Server plans for the mock replicas and for each gateway in front of them.

Each gateway is configured as its documentation describes for plain HTTP replicas: one process,
minimal logging, no keys, no database. `benchmarks.servers` runs the plans.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gateway.peers import environment_of

MODEL = "simulated"
DIRECT = "direct"
DIRECT_AGAIN = "direct again"
"""`DIRECT`, measured a second time in each repeat; the difference between the two is noise."""
PACELINE = "paceline"
LITELLM = "litellm"
VLLM_ROUTER = "vllm-router"
GATEWAYS = (PACELINE, LITELLM, VLLM_ROUTER)


@dataclass(frozen=True, slots=True)
class Replicas:
    """The settings of the mock replicas; all replicas have the same."""

    count: int
    tpot_ms: float
    prefill_tokens_per_s: float
    max_num_seqs: int


def replica_plan(replicas: Replicas) -> dict[str, Any]:
    """One `paceline mock-vllm`."""
    options = {
        "--model": MODEL,
        "--tpot-ms": replicas.tpot_ms,
        "--prefill-tokens-per-s": replicas.prefill_tokens_per_s,
        "--max-num-seqs": replicas.max_num_seqs,
        "--eos-every-tokens": 0,
        "--port": "{port}",
    }
    words = [str(word) for option in options.items() for word in option]
    return {"command": ["paceline", "mock-vllm", *words]}


def gateway_plan(
    gateway: str,
    urls: Sequence[str],
    folder: Path,
    cache: Path,
    *,
    max_in_flight: int,
    max_queue_wait_s: float | None = None,
) -> dict[str, Any]:
    """The plan of a gateway in front of the replicas at `urls`; its files go into `folder`."""
    if gateway == PACELINE:
        return _paceline(urls, folder, max_in_flight, max_queue_wait_s)
    if gateway == LITELLM:
        return _litellm(urls, folder, environment_of(LITELLM, cache))
    return _vllm_router(urls, environment_of(VLLM_ROUTER, cache), max_in_flight, max_queue_wait_s)


def _paceline(
    urls: Sequence[str], folder: Path, max_in_flight: int, max_queue_wait_s: float | None
) -> dict[str, Any]:
    admission: dict[str, Any] = {"max_in_flight": max_in_flight}
    if max_queue_wait_s is not None:
        admission["max_queue_wait_s"] = max_queue_wait_s
    settings = {
        "engine": {"replicas": 0},
        "replicas": [{"url": url} for url in urls],
        "admission": admission,
    }
    path = folder / "paceline.yaml"
    path.write_text(json.dumps(settings))  # JSON is YAML
    ports = ["--port", "{port}", "--admin-port", "{admin_port}"]
    return {"command": ["paceline", "serve", "--config", str(path), *ports]}


def _litellm(urls: Sequence[str], folder: Path, commands: Path) -> dict[str, Any]:
    settings = {
        "model_list": [
            {
                "model_name": MODEL,
                "litellm_params": {
                    "model": f"hosted_vllm/{MODEL}",
                    "api_base": f"{url}/v1",
                    "api_key": "none",
                },
            }
            for url in urls
        ],
        "litellm_settings": {"telemetry": False, "callbacks": [], "num_retries": 0},
        "general_settings": {"dangerously_permit_weak_or_unset_master_key": True},
    }
    path = folder / "litellm.yaml"
    path.write_text(json.dumps(settings))
    return {
        "command": [str(commands / "litellm"), "--config", str(path), "--host", "127.0.0.1",
                    "--port", "{port}", "--num_workers", "1"],
        "env": {"LITELLM_LOG": "ERROR", "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    }  # fmt: skip


def _vllm_router(
    urls: Sequence[str], commands: Path, max_in_flight: int, max_queue_wait_s: float | None
) -> dict[str, Any]:
    limits: list[str] = []
    if max_queue_wait_s is not None:
        # vllm-router counts in whole seconds, and over all replicas.
        limits = ["--max-concurrent-requests", str(max_in_flight * len(urls)),
                  "--queue-timeout-secs", str(max(round(max_queue_wait_s), 1))]  # fmt: skip
    return {
        "command": [str(commands / "vllm-router"), "--worker-urls", *urls,
                    "--policy", "round_robin", "--host", "127.0.0.1", "--port", "{port}",
                    "--prometheus-port", "{admin_port}", "--log-level", "warning", *limits],
    }  # fmt: skip
