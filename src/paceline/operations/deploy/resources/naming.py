"""Names, labels and ports that the resources of a deployment share."""

from __future__ import annotations

from typing import Any

from paceline.operations.deploy.values import Deployment, Pool

PART_OF = "paceline"
GATEWAY = "gateway"
DATA_PORT = 8000
ADMIN_PORT = 8001
PROBE_PORT = 8002
ENGINE_PORT = 8000
SETTINGS_MAP = "paceline-settings"
KEYS_SECRET = "paceline-keys"
ENGINE_KEY_SECRET = "paceline-engine-key"
HUGGING_FACE_SECRET = "paceline-hugging-face"

Resource = dict[str, Any]


def engine_name(pool: Pool) -> str:
    """Name of the pool's Deployment or LeaderWorkerSet, of its scaling and policies."""
    return f"engine-{pool.name}"


def service_name(pool: Pool) -> str:
    """Name of the Service whose addresses are the replicas of a pool.

    A LeaderWorkerSet makes a Service of its own name, by which workers find a leader that is not
    ready yet; if one with that name exists, it makes none, and no replica would start.
    """
    return engine_name(pool) if pool.nodes_per_replica == 1 else f"{engine_name(pool)}-leaders"


def engine_settings_name(pool: Pool) -> str:
    """Name of the ConfigMap with the settings of a server that is not vLLM."""
    return f"{engine_name(pool)}-settings"


def labels(component: str) -> dict[str, str]:
    """Labels of a resource that belongs to a component: the gateway or a pool."""
    return {
        "app.kubernetes.io/name": component,
        "app.kubernetes.io/part-of": PART_OF,
    }


def metadata(deployment: Deployment, name: str, component: str | None = None) -> dict[str, Any]:
    """The metadata of a resource."""
    return {
        "name": name,
        "namespace": deployment.namespace,
        "labels": labels(component or name),
    }


def selector(component: str) -> dict[str, Any]:
    """A selector of the component's pods."""
    return {"matchLabels": labels(component)}
