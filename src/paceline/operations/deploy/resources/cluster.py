"""The namespace, the account of the pods, and how many pods may be missing at a time."""

from __future__ import annotations

from paceline.operations.deploy.resources.naming import (
    GATEWAY,
    PART_OF,
    Resource,
    engine_name,
    labels,
    metadata,
    selector,
)
from paceline.operations.deploy.values import Deployment


def namespace(deployment: Deployment) -> Resource:
    """The namespace, which refuses pods with privileges."""
    security = {"pod-security.kubernetes.io/enforce": "restricted"}
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": deployment.namespace, "labels": {**labels(PART_OF), **security}},
    }


def service_account(deployment: Deployment) -> Resource:
    """An account without rights; no pod talks to Kubernetes."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": metadata(deployment, "paceline"),
        "automountServiceAccountToken": False,
    }


def disruption_budgets(deployment: Deployment) -> list[Resource]:
    """At most one gateway and one engine of each pool leave at a time, when nodes are drained.

    The tier with one pod has none: its node could never be drained.
    """
    if deployment.gateways == 0:
        return []
    components = [GATEWAY]
    # The pods of one replica over several nodes end together, whatever a budget says.
    components += [engine_name(pool) for pool in deployment.pools if pool.nodes_per_replica == 1]
    return [
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": metadata(deployment, component),
            "spec": {"maxUnavailable": 1, "selector": selector(component)},
        }
        for component in components
    ]
