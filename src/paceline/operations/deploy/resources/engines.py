"""Pools of engines: a Deployment of servers, or a LeaderWorkerSet for several nodes each.

An engine runs `vllm serve` with Paceline's scheduler. When its pod is deleted, it leaves the DNS
name of its pool at once; the preStop hook holds SIGTERM back until every gateway has noticed, and
vLLM then completes its requests (`--shutdown-timeout`). `other_engines` has the containers of other
servers, for the same Deployment.
"""

from __future__ import annotations

from typing import Any

from paceline.operations.deploy.resources.naming import (
    ENGINE_KEY_SECRET,
    ENGINE_PORT,
    Resource,
    engine_name,
    labels,
    metadata,
    selector,
    service_name,
)
from paceline.operations.deploy.resources.other_engines import (
    other_serving_container,
    settings_annotations,
    settings_volumes,
)
from paceline.operations.deploy.resources.pods import (
    CACHE_FOLDER,
    container_security,
    download_environment,
    engine_resources,
    engine_volumes,
    environment,
    gpu_scheduling,
    pod_spec,
    readiness_probe,
    start_s,
    start_up_probe,
    wait_before_sigterm,
)
from paceline.operations.deploy.values import Deployment, Pool

STALLED_AFTER_S = 300
"""Longer than the gateway's limits for a silent replica (at most 225 s, docs/gateway.md), so that
the gateway has moved its requests before the pod is restarted."""
_LEADER = {"leaderworkerset.sigs.k8s.io/worker-index": "0"}


def engine_workload(deployment: Deployment, pool: Pool) -> Resource:
    """The Deployment or LeaderWorkerSet of a pool."""
    if pool.nodes_per_replica > 1:
        return _leader_worker_set(deployment, pool)
    name = engine_name(pool)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata(deployment, name),
        "spec": {
            # Without `replicas`, so that applying the manifest again does not undo the scaling.
            **({} if pool.scales else {"replicas": pool.min_replicas}),
            "revisionHistoryLimit": 3,
            # The gateways use the new engine before the next one leaves.
            "minReadySeconds": deployment.times.engine_leave_s,
            # A surge would need GPUs that are idle otherwise.
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
            },
            "selector": selector(name),
            "template": _template(
                deployment,
                pool,
                _serving_container(deployment, pool, ())
                if pool.server == "vllm"
                else other_serving_container(deployment, pool),
            ),
        },
    }


def engine_service(deployment: Deployment, pool: Pool) -> Resource:
    """The headless Service whose addresses are the replicas of a pool."""
    leaders = _LEADER if pool.nodes_per_replica > 1 else {}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(deployment, service_name(pool), engine_name(pool)),
        "spec": {
            "clusterIP": "None",
            "selector": {**labels(engine_name(pool)), **leaders},
            "ports": [{"name": "http", "port": ENGINE_PORT, "targetPort": "http"}],
        },
    }


def _leader_worker_set(deployment: Deployment, pool: Pool) -> Resource:
    name, times = engine_name(pool), deployment.times
    leader = _serving_container(deployment, pool, _across_nodes(pool))
    worker = {
        **_container(deployment, pool),
        "args": [*_args(deployment, pool), *_across_nodes(pool), "--headless"],
        # SIGTERM reaches all pods of a replica at once; the leader still completes its requests.
        "lifecycle": wait_before_sigterm(times.engine_leave_s + times.drain_s),
    }
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": metadata(deployment, name),
        "spec": {
            **({} if pool.scales else {"replicas": pool.min_replicas}),
            "rolloutStrategy": {
                "type": "RollingUpdate",
                "rollingUpdateConfiguration": {"maxSurge": 0, "maxUnavailable": 1},
            },
            "leaderWorkerTemplate": {
                "size": pool.nodes_per_replica,
                # A replica whose worker is lost cannot continue.
                "restartPolicy": "RecreateGroupOnPodRestart",
                "leaderTemplate": _template(deployment, pool, leader),
                "workerTemplate": _template(deployment, pool, worker),
            },
        },
    }


def _across_nodes(pool: Pool) -> tuple[str, ...]:
    """vLLM's own executor over several nodes: a pipeline stage on each."""
    return (
        "--pipeline-parallel-size",
        str(pool.nodes_per_replica),
        "--nnodes",
        str(pool.nodes_per_replica),
        "--node-rank",
        "$(LWS_WORKER_INDEX)",
        "--master-addr",
        "$(LWS_LEADER_ADDRESS)",
    )


def _template(deployment: Deployment, pool: Pool, container: dict[str, Any]) -> dict[str, Any]:
    volumes, _ = engine_volumes(deployment, pool)
    times = deployment.times
    return {
        "metadata": {"labels": labels(engine_name(pool)), **settings_annotations(pool)},
        "spec": {
            **pod_spec(
                deployment,
                [container],
                [*volumes, *settings_volumes(pool)],
                leave_s=times.engine_leave_s + times.drain_s,
            ),
            **gpu_scheduling(deployment),
        },
    }


def _serving_container(
    deployment: Deployment, pool: Pool, across_nodes: tuple[str, ...]
) -> dict[str, Any]:
    """The container that answers requests, with its probes."""
    return {
        **_container(deployment, pool),
        "args": [*_args(deployment, pool), *across_nodes],
        "ports": [{"name": "http", "containerPort": ENGINE_PORT}],
        "startupProbe": start_up_probe("/health", "http", start_s(deployment, pool)),
        "readinessProbe": readiness_probe("/health", "http"),
        "livenessProbe": {
            # /health answers even while the engine hangs; its counters do not lie.
            "exec": {
                "command": [
                    "python3",
                    "-m",
                    "paceline.operations.deploy.progress_probe",
                    f"--url=http://127.0.0.1:{ENGINE_PORT}/metrics",
                    "--state=/tmp/progress.json",
                    f"--limit-s={STALLED_AFTER_S}",
                ]
            },
            "periodSeconds": 30,
            "timeoutSeconds": 10,
            "failureThreshold": 2,
        },
        "lifecycle": wait_before_sigterm(deployment.times.engine_leave_s),
    }


def _container(deployment: Deployment, pool: Pool) -> dict[str, Any]:
    _, mounts = engine_volumes(deployment, pool)
    key = {"name": ENGINE_KEY_SECRET, "key": "key"}
    return {
        "name": "engine",
        "image": deployment.image,
        "imagePullPolicy": "Always",
        "command": ["vllm", "serve"],
        "env": [
            *environment(),
            {"name": "VLLM_CACHE_ROOT", "value": f"{CACHE_FOLDER}/vllm"},
            {"name": "VLLM_API_KEY", "valueFrom": {"secretKeyRef": key}},
            *download_environment(deployment),
        ],
        "securityContext": container_security(),
        "resources": engine_resources(deployment, pool),
        "volumeMounts": mounts,
    }


def _args(deployment: Deployment, pool: Pool) -> list[str]:
    return [
        pool.model,
        "--host",
        "0.0.0.0",
        "--port",
        str(ENGINE_PORT),
        "--served-model-name",
        pool.served_name,
        *pool.server_args,
        "--shutdown-timeout",
        str(deployment.times.drain_s),
    ]
