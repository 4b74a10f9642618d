"""Autoscaling of a pool: a KEDA ScaledObject, and a HorizontalPodAutoscaler instead of it.

Two signals, of which the one that asks for more replicas wins. The queue alone is blind to
saturation: with an engine's slots all in use and an empty queue it would remove replicas
(llm-d #1739). So the requests that run count too, against the slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paceline.operations.deploy.resources.naming import Resource, engine_name, metadata
from paceline.operations.deploy.values import Deployment, Pool

QUEUE_LENGTH = 10
"""Waiting requests per replica that a pool grows at."""
GROW_AFTER_S = 60
SHRINK_AFTER_S = 300
MAX_BUSY_FRACTION = 0.8
"""Of the slots in use. Above it bursts fill the queue; `paceline plan` sizes fleets for 0.85."""
_POLL_PERIOD_S = 15


@dataclass(frozen=True, slots=True)
class Signal:
    """A query of Prometheus, and its value per replica that the pool is held at."""

    name: str
    query: str
    target: int


def signals(deployment: Deployment, pool: Pool) -> tuple[Signal, Signal]:
    """What the number of replicas follows."""
    namespace = f'namespace="{deployment.namespace}"'
    own = f'{namespace},replica=~"{pool.name}@.+"'
    # Each gateway reports the queue of every engine, and only its own queue and requests. A model
    # has no queue before its first request, and a new engine has no figures at first.
    model = f'{namespace},model="{pool.served_name}"'
    waiting = (
        f"(sum(paceline_admission_queue_length{{{model}}}) or vector(0)) + "
        f"(sum(max by (replica) (paceline_replica_load_requests_waiting{{{own}}})) or vector(0))"
    )
    # Without samples there is no result, an error for KEDA and HPA: neither then removes replicas.
    running = f"sum(paceline_requests_in_flight{{{own}}})"
    most = max(1, int(MAX_BUSY_FRACTION * pool.slots))
    return (
        Signal("queue", waiting, QUEUE_LENGTH),
        Signal("running", running, most),
    )


def scaled_object(deployment: Deployment, pool: Pool) -> Resource:
    """The ScaledObject of KEDA, which makes a HorizontalPodAutoscaler of it."""
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": metadata(deployment, engine_name(pool)),
        "spec": {
            "scaleTargetRef": _target(pool),
            "minReplicaCount": pool.min_replicas,
            "maxReplicaCount": pool.max_replicas,
            "pollingInterval": _POLL_PERIOD_S,
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": _behavior()}},
            "triggers": [
                {
                    "type": "prometheus",
                    "name": signal.name,
                    "metricType": "AverageValue",
                    "metadata": {
                        "serverAddress": deployment.monitoring.prometheus_url,
                        "query": signal.query,
                        "threshold": str(signal.target),
                        # A query without an answer is an error, which keeps the replicas.
                        "ignoreNullValues": "false",
                    },
                }
                for signal in signals(deployment, pool)
            ],
        },
    }


def horizontal_pod_autoscaler(deployment: Deployment, pool: Pool) -> Resource:
    """The same without KEDA, on metrics that `adapter_rules` defines."""
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata(deployment, engine_name(pool)),
        "spec": {
            "scaleTargetRef": _target(pool),
            "minReplicas": pool.min_replicas,
            "maxReplicas": pool.max_replicas,
            "behavior": _behavior(),
            "metrics": [
                {
                    "type": "External",
                    "external": {
                        "metric": {"name": _metric_name(pool, signal)},
                        "target": {"type": "AverageValue", "averageValue": str(signal.target)},
                    },
                }
                for signal in signals(deployment, pool)
            ],
        },
    }


def adapter_rules(deployment: Deployment) -> dict[str, Any]:
    """The rules of prometheus-adapter (part of its configuration)."""
    return {
        "externalRules": [
            {
                "seriesQuery": "paceline_requests_in_flight",
                "resources": {"overrides": {"namespace": {"resource": "namespace"}}},
                "name": {"as": _metric_name(pool, signal)},
                "metricsQuery": signal.query,
            }
            for pool in deployment.pools
            if pool.scales
            for signal in signals(deployment, pool)
        ]
    }


def _metric_name(pool: Pool, signal: Signal) -> str:
    return f"paceline_{pool.name.replace('-', '_')}_{signal.name}"


def _target(pool: Pool) -> dict[str, str]:
    if pool.nodes_per_replica > 1:
        version, kind = "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"
    else:
        version, kind = "apps/v1", "Deployment"
    return {"apiVersion": version, "kind": kind, "name": engine_name(pool)}


def _behavior() -> dict[str, Any]:
    """Growth by half, at least one; shrinking by one replica in the time that it drains."""
    return {
        "scaleUp": {
            "stabilizationWindowSeconds": GROW_AFTER_S,
            "selectPolicy": "Max",
            "policies": [
                {"type": "Pods", "value": 1, "periodSeconds": 60},
                {"type": "Percent", "value": 50, "periodSeconds": 60},
            ],
        },
        "scaleDown": {
            "stabilizationWindowSeconds": SHRINK_AFTER_S,
            "policies": [{"type": "Pods", "value": 1, "periodSeconds": SHRINK_AFTER_S}],
        },
    }
