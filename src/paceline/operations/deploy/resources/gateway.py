"""The gateway: its Deployment, its Service, and the pod of the tier that is gateway and engine."""

from __future__ import annotations

from typing import Any

from paceline.operations.deploy.resources.monitoring import scrape_annotations
from paceline.operations.deploy.resources.naming import (
    ADMIN_PORT,
    DATA_PORT,
    ENGINE_KEY_SECRET,
    GATEWAY,
    KEYS_SECRET,
    PROBE_PORT,
    SETTINGS_MAP,
    Resource,
    labels,
    metadata,
    selector,
)
from paceline.operations.deploy.resources.pods import (
    container_security,
    download_environment,
    engine_resources,
    engine_volumes,
    environment,
    gpu_scheduling,
    http_probe,
    pod_spec,
    readiness_probe,
    secret_volume,
    start_s,
    start_up_probe,
)
from paceline.operations.deploy.resources.settings import KEYS_FOLDER, SETTINGS_FOLDER
from paceline.operations.deploy.values import Deployment

_RESOURCES = {"cpu": "2", "memory": "3Gi", "ephemeral-storage": "1Gi"}
"""One gateway process keeps one core busy at some thousand chunks per second; the second serves the
admin port. 1 GiB for requests and answers (server.max_buffered_bytes), and as much again for
connections and streams; docs/gateway.md, Memory."""


def gateway_deployment(deployment: Deployment, settings_digest: str) -> Resource:
    """The Deployment of the gateways, or of the only pod.

    `settings_digest` is in the pod's annotations: pods read their settings at the start only.
    """
    spec: dict[str, Any] = {
        "replicas": max(1, deployment.gateways),
        "revisionHistoryLimit": 3,
        "strategy": _strategy(deployment),
        "selector": selector(GATEWAY),
        "template": {
            "metadata": {
                "labels": labels(GATEWAY),
                "annotations": {
                    "paceline/settings": settings_digest,
                    **scrape_annotations(deployment),
                },
            },
            "spec": _only_pod(deployment) if deployment.gateways == 0 else _gateway_pod(deployment),
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(deployment, GATEWAY),
        "spec": spec,
    }


def gateway_service(deployment: Deployment) -> Resource:
    """The Service that clients use."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(deployment, "paceline", GATEWAY),
        "spec": {
            "selector": labels(GATEWAY),
            "ports": [{"name": "http", "port": DATA_PORT, "targetPort": "http"}],
        },
    }


def _strategy(deployment: Deployment) -> dict[str, Any]:
    if deployment.gateways == 0:
        # A second pod would wait for the GPU that the first one has.
        return {"type": "Recreate"}
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}


def _gateway_pod(deployment: Deployment) -> dict[str, Any]:
    container = {
        **_container(deployment.gateway_image, engine_start_s=None),
        "env": environment(),
        "resources": {"requests": dict(_RESOURCES), "limits": dict(_RESOURCES)},
        "volumeMounts": [
            *_settings_mounts(),
            _mount("engine-key", f"{SETTINGS_FOLDER}/engine-key"),
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "cache", "mountPath": "/var/cache/paceline"},
        ],
    }
    volumes = [
        *_settings_volumes(),
        secret_volume("engine-key", ENGINE_KEY_SECRET, {"key": "key"}),
        {"name": "tmp", "emptyDir": {"sizeLimit": "256Mi"}},
        {"name": "cache", "emptyDir": {"sizeLimit": "256Mi"}},
    ]
    spread = [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": selector(GATEWAY),
        }
        for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
    ]
    return {
        **pod_spec(deployment, [container], volumes, leave_s=_leave_s(deployment)),
        "topologySpreadConstraints": spread,
    }


def _only_pod(deployment: Deployment) -> dict[str, Any]:
    (pool,) = deployment.pools
    volumes, mounts = engine_volumes(deployment, pool)
    container = {
        # A margin, so that the gateway can report the failed start itself.
        **_container(
            deployment.image,
            engine_start_s=start_s(deployment, pool) + deployment.times.margin_s,
        ),
        "env": [*environment(), *download_environment(deployment)],
        "resources": engine_resources(deployment, pool),
        "volumeMounts": [*_settings_mounts(), *mounts],
    }
    return {
        **pod_spec(
            deployment,
            [container],
            [*_settings_volumes(), *volumes],
            leave_s=_leave_s(deployment),
        ),
        **gpu_scheduling(deployment),
    }


def _container(image: str, *, engine_start_s: int | None) -> dict[str, Any]:
    # /ready needs a replica. The start of a gateway without engines does not wait for one: its
    # engines may start later.
    start = ("/health", 60) if engine_start_s is None else ("/ready", engine_start_s)
    return {
        "name": GATEWAY,
        "image": image,
        "imagePullPolicy": "Always",
        "command": ["paceline", "serve"],
        "args": ["--config", f"{SETTINGS_FOLDER}/paceline.yaml"],
        "securityContext": container_security(),
        "ports": [
            {"name": "http", "containerPort": DATA_PORT},
            {"name": "admin", "containerPort": ADMIN_PORT},
            {"name": "probes", "containerPort": PROBE_PORT},
        ],
        # Not on the data port: a flood of connections to it would have the pod restarted.
        "startupProbe": start_up_probe(start[0], "probes", start[1]),
        "readinessProbe": readiness_probe("/ready", "probes"),
        # The gateway restarts engines that make no progress; the kubelet restarts the gateway.
        "livenessProbe": http_probe("/health", "probes", period_s=10, failures=6),
    }


def _leave_s(deployment: Deployment) -> int:
    """SIGTERM begins the lame-duck time with `/ready` at 503, so no preStop hook is needed."""
    return deployment.times.lame_duck_s + deployment.times.drain_s


def _settings_volumes() -> list[dict[str, Any]]:
    keys = {"keys": "keys", "admin-keys": "admin-keys", "salt": "salt"}
    return [
        {"name": "settings", "configMap": {"name": SETTINGS_MAP}},
        secret_volume("keys", KEYS_SECRET, keys),
    ]


def _settings_mounts() -> list[dict[str, Any]]:
    # The folder of the keys, not its files: the gateway reads changed keys again.
    return [
        {
            "name": "settings",
            "mountPath": f"{SETTINGS_FOLDER}/paceline.yaml",
            "subPath": "paceline.yaml",
            "readOnly": True,
        },
        _mount("keys", KEYS_FOLDER),
    ]


def _mount(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "mountPath": path, "readOnly": True}
