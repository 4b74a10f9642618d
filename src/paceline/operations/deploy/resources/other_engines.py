"""Containers of TensorRT-LLM and Triton, for the same Deployment as vLLM's engines.

TensorRT-LLM runs `trtllm-serve`; Triton runs its OpenAI-compatible frontend with the vLLM backend.
Both answer with uvicorn, which on SIGTERM accepts no more connections and waits for the answers in
flight. None of it has been started by this project: docs/how-to/deploy.md says what was read.

Neither image has Paceline, so the liveness probe is the server's own health route: it does not
notice an engine that hangs. The gateways do, and send requests elsewhere.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from paceline.operations.deploy.resources.naming import (
    ENGINE_KEY_SECRET,
    ENGINE_PORT,
    Resource,
    engine_name,
    engine_settings_name,
    metadata,
)
from paceline.operations.deploy.resources.pods import (
    CACHE_FOLDER,
    container_security,
    download_environment,
    engine_resources,
    engine_volumes,
    environment,
    http_probe,
    readiness_probe,
    start_s,
    start_up_probe,
    wait_before_sigterm,
)
from paceline.operations.deploy.values import Deployment, Pool, ServerName
from paceline.operations.deploy.yaml_text import render_yaml

SERVERS_WITH_KEY: frozenset[ServerName] = frozenset({"vllm", "triton"})
"""Servers that can require the key of the gateways; `trtllm-serve` cannot."""

_TRTLLM_CONFIG = "/etc/trtllm/config.yaml"
_TRITON_FRONTEND = "/opt/tritonserver/python/openai/openai_frontend/main.py"
_TRITON_REPOSITORY = "/repository"
_VOLUME = "settings"
_HEALTH_PATHS = {"trtllm": "/health", "triton": "/health/ready"}
_TRITON_MODEL = """backend: "vllm"
instance_group [{kind: KIND_MODEL}]
parameters: {
  key: "REPORT_CUSTOM_METRICS"
  value: {string_value: "true"}
}
"""
"""The `config.pbtxt` of the model. With KIND_MODEL the backend chooses the GPUs itself."""


def settings_maps(deployment: Deployment, pool: Pool) -> list[Resource]:
    """The ConfigMap with the settings of a server; none for vLLM, whose settings are arguments."""
    if pool.server == "vllm":
        return []
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata(deployment, engine_settings_name(pool), engine_name(pool)),
            "data": _files(pool),
        }
    ]


def settings_volumes(pool: Pool) -> list[dict[str, Any]]:
    """The volume of that ConfigMap."""
    if pool.server == "vllm":
        return []
    return [{"name": _VOLUME, "configMap": {"name": engine_settings_name(pool)}}]


def settings_annotations(pool: Pool) -> dict[str, Any]:
    """Annotations by which changed settings start new pods: a server reads them once."""
    if pool.server == "vllm":
        return {}
    digest = hashlib.sha256(json.dumps(_files(pool), sort_keys=True).encode()).hexdigest()[:16]
    return {"annotations": {"paceline/settings": digest}}


def other_serving_container(deployment: Deployment, pool: Pool) -> dict[str, Any]:
    """The container of a pool whose server is not vLLM, with its probes."""
    _, mounts = engine_volumes(deployment, pool)
    path = _HEALTH_PATHS[pool.server]
    return {
        "name": "engine",
        "image": pool.image,
        "imagePullPolicy": "Always",
        **(_trtllm_command(pool) if pool.server == "trtllm" else _triton_command(pool)),
        "env": [
            *environment(),
            *(_triton_environment() if pool.server == "triton" else ()),
            *download_environment(deployment),
        ],
        "securityContext": container_security(),
        "resources": engine_resources(deployment, pool),
        "volumeMounts": [*mounts, *_settings_mounts(pool)],
        "ports": [{"name": "http", "containerPort": ENGINE_PORT}],
        "startupProbe": start_up_probe(path, "http", start_s(deployment, pool)),
        "readinessProbe": readiness_probe(path, "http"),
        "livenessProbe": http_probe(path, "http", period_s=30, failures=4),
        "lifecycle": wait_before_sigterm(deployment.times.engine_leave_s),
    }


def _trtllm_command(pool: Pool) -> dict[str, Any]:
    return {
        "command": ["trtllm-serve"],
        "args": [
            pool.model,
            "--host",
            "0.0.0.0",
            "--port",
            str(ENGINE_PORT),
            "--served_model_name",
            pool.served_name,
            *pool.server_args,
            "--config",
            _TRTLLM_CONFIG,
        ],
    }


def _triton_command(pool: Pool) -> dict[str, Any]:
    return {
        "command": ["python3", _TRITON_FRONTEND],
        "args": [
            "--model-repository",
            _TRITON_REPOSITORY,
            "--tokenizer",
            pool.model,
            "--backend",
            "vllm",
            "--host",
            "0.0.0.0",
            "--openai-port",
            str(ENGINE_PORT),
            # Requests without max_tokens: until the context is full, as with vLLM. The frontend's
            # own default ends them after 16 tokens.
            "--default-max-tokens",
            str(pool.engine_settings["max_model_len"]),
            # The kubelet puts the key in.
            "--openai-restricted-api",
            "inference,model-repository",
            "authorization",
            "Bearer $(ENGINE_KEY)",
        ],
    }


def _triton_environment() -> list[dict[str, Any]]:
    key = {"name": ENGINE_KEY_SECRET, "key": "key"}
    return [
        {"name": "VLLM_CACHE_ROOT", "value": f"{CACHE_FOLDER}/vllm"},
        {"name": "ENGINE_KEY", "valueFrom": {"secretKeyRef": key}},
    ]


def _files(pool: Pool) -> dict[str, str]:
    """The keys of the ConfigMap, with their text."""
    if pool.server == "trtllm":
        return {"config.yaml": render_yaml(dict(pool.engine_settings))}
    return {
        "config.pbtxt": _TRITON_MODEL,
        "model.json": json.dumps(dict(pool.engine_settings), indent=1) + "\n",
    }


def _settings_mounts(pool: Pool) -> list[dict[str, Any]]:
    # Each file by itself: a mounted folder would have the kubelet's own folders beside them, which
    # Triton could take for models.
    if pool.server == "trtllm":
        places = {"config.yaml": _TRTLLM_CONFIG}
    else:
        model = f"{_TRITON_REPOSITORY}/{pool.served_name}"
        places = {"config.pbtxt": f"{model}/config.pbtxt", "model.json": f"{model}/1/model.json"}
    return [
        {"name": _VOLUME, "mountPath": path, "subPath": key, "readOnly": True}
        for key, path in places.items()
    ]
