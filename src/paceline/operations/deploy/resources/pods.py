"""What every pod has: no privileges, a read-only root, writable folders, probes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from paceline.operations.deploy.resources.naming import HUGGING_FACE_SECRET
from paceline.operations.deploy.values import Deployment, Pool

USER_ID = 10_001
"""Above the ids that hosts give to their users."""
CACHE_FOLDER = "/var/cache/paceline"
MODEL_FOLDER = "/models"
READINESS_PERIOD_S = 5
READINESS_FAILURES = 2
_GIB = 1024**3
_COMPILED_GIB = 16
"""Room for compiled kernels and logs: chosen empirically."""
_DOWNLOAD_BYTES_PER_S = 100e6
"""Slowest download of weights that the start-up probe waits for: chosen empirically."""
_MAX_SHARED_MEMORY_GIB = 8
"""For the exchange between the processes of a tensor-parallel engine: chosen empirically."""


def pod_security() -> dict[str, Any]:
    """Security context of a pod, as the Pod Security Standard `restricted` wants it."""
    return {
        "runAsNonRoot": True,
        "runAsUser": USER_ID,
        "runAsGroup": USER_ID,
        "fsGroup": USER_ID,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container_security() -> dict[str, Any]:
    """Security context of a container."""
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def environment() -> list[dict[str, Any]]:
    """Variables that lead every cache into the writable folder."""
    return [
        {"name": "HOME", "value": CACHE_FOLDER},
        # PyTorch asks for the user's name; the id has none in many images.
        {"name": "USER", "value": "paceline"},
        {"name": "XDG_STATE_HOME", "value": f"{CACHE_FOLDER}/state"},
    ]


def download_environment(deployment: Deployment) -> list[dict[str, Any]]:
    """Access to Hugging Face; nothing where the weights are on a claim."""
    if deployment.model_claim is not None:
        return [{"name": "HF_HUB_OFFLINE", "value": "1"}]
    reference = {"name": HUGGING_FACE_SECRET, "key": "token", "optional": True}
    return [{"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": reference}}]


def start_s(deployment: Deployment, pool: Pool) -> int:
    """How long an engine may take to start: the download of its weights, and the rest."""
    download_s = 0.0
    if deployment.model_claim is None:
        download_s = pool.weights_bytes / _DOWNLOAD_BYTES_PER_S
    return deployment.times.start_s + 60 * math.ceil(download_s / 60)


def cache_gib(deployment: Deployment, pool: Pool) -> int:
    """Size of the writable folder: compiled kernels, and the weights unless they are on a claim."""
    downloaded = 0 if deployment.model_claim is not None else pool.weights_bytes
    # A download keeps a part of a file beside the file.
    return _COMPILED_GIB + math.ceil(1.1 * downloaded / _GIB)


def engine_volumes(
    deployment: Deployment, pool: Pool
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Volumes of a pod with an engine, and their mounts."""
    volumes: list[dict[str, Any]] = [
        {"name": "tmp", "emptyDir": {"sizeLimit": "1Gi"}},
        {"name": "cache", "emptyDir": {"sizeLimit": f"{cache_gib(deployment, pool)}Gi"}},
        {
            "name": "shared-memory",
            "emptyDir": {"medium": "Memory", "sizeLimit": f"{_shared_gib(deployment, pool)}Gi"},
        },
    ]
    mounts: list[dict[str, Any]] = [
        {"name": "tmp", "mountPath": "/tmp"},
        {"name": "cache", "mountPath": CACHE_FOLDER},
        {"name": "shared-memory", "mountPath": "/dev/shm"},
    ]
    if deployment.model_claim is not None:
        claim = {"claimName": deployment.model_claim, "readOnly": True}
        volumes.append({"name": "models", "persistentVolumeClaim": claim})
        mounts.append({"name": "models", "mountPath": MODEL_FOLDER, "readOnly": True})
    return volumes, mounts


def engine_resources(deployment: Deployment, pool: Pool) -> dict[str, Any]:
    """Requests and limits of a container with an engine; its memory is not overcommitted."""
    memory = f"{pool.gpus * deployment.node.memory_gib_per_gpu}Gi"
    cpu = str(pool.gpus * deployment.node.cpus_per_gpu)
    disk = f"{cache_gib(deployment, pool) + 1}Gi"
    both = {"cpu": cpu, "memory": memory, "ephemeral-storage": disk}
    gpus = {"nvidia.com/gpu": str(pool.gpus)}
    return {"requests": {**both, **gpus}, "limits": {**both, **gpus}}


def _shared_gib(deployment: Deployment, pool: Pool) -> int:
    # It counts as memory of the container.
    return min(_MAX_SHARED_MEMORY_GIB, max(1, pool.gpus * deployment.node.memory_gib_per_gpu // 8))


def gpu_scheduling(deployment: Deployment) -> dict[str, Any]:
    """The nodes that a pod with GPUs may run on."""
    wanted = {
        "key": "nvidia.com/gpu.product",
        "operator": "In",
        "values": list(deployment.node.products),
    }
    terms = [{"matchExpressions": [wanted]}]
    return {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
            }
        },
        "tolerations": [
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
        ],
    }


def http_probe(path: str, port: str, *, period_s: int, failures: int) -> dict[str, Any]:
    """A probe by HTTP; it fails `failures` periods after the first bad answer."""
    return {
        "httpGet": {"path": path, "port": port},
        "periodSeconds": period_s,
        "timeoutSeconds": min(5, period_s),
        "failureThreshold": failures,
    }


def readiness_probe(path: str, port: str) -> dict[str, Any]:
    """The probe that decides whether a pod gets new connections."""
    return http_probe(path, port, period_s=READINESS_PERIOD_S, failures=READINESS_FAILURES)


def start_up_probe(path: str, port: str, limit_s: int) -> dict[str, Any]:
    """The probe that must succeed within the limit before the others begin."""
    return http_probe(path, port, period_s=10, failures=math.ceil(limit_s / 10))


def wait_before_sigterm(seconds: int) -> dict[str, Any]:
    """A preStop hook of the kubelet, which needs no program in the image."""
    return {"preStop": {"sleep": {"seconds": seconds}}}


def secret_volume(name: str, secret: str, keys: Mapping[str, str]) -> dict[str, Any]:
    """A volume with some keys of a secret, each as a file; readable by the pod's user only."""
    items = [{"key": key, "path": path} for key, path in keys.items()]
    return {"name": name, "secret": {"secretName": secret, "defaultMode": 0o400, "items": items}}


def pod_spec(
    deployment: Deployment,
    containers: Sequence[dict[str, Any]],
    volumes: Sequence[dict[str, Any]],
    *,
    leave_s: int,
) -> dict[str, Any]:
    """The specification of a pod that has `leave_s` seconds to end."""
    return {
        "serviceAccountName": "paceline",
        "automountServiceAccountToken": False,
        # The links of the Service `paceline` would be variables PACELINE_…, which are settings.
        "enableServiceLinks": False,
        "securityContext": pod_security(),
        "terminationGracePeriodSeconds": leave_s + deployment.times.margin_s,
        "containers": list(containers),
        "volumes": list(volumes),
    }
