"""Network policies: nothing reaches anything, except what is listed here."""

from __future__ import annotations

from typing import Any

from paceline.operations.deploy.resources.naming import (
    ADMIN_PORT,
    DATA_PORT,
    ENGINE_PORT,
    GATEWAY,
    Resource,
    engine_name,
    metadata,
    selector,
)
from paceline.operations.deploy.values import Deployment, Pool


def network_policies(deployment: Deployment) -> list[Resource]:
    """The policies of the namespace: all traffic refused, then what each component may do."""
    rest = [_engine_policy(deployment, pool) for pool in _engine_pools(deployment)]
    return [_refuse_all(deployment), _gateway_policy(deployment), *rest]


def _engine_pools(deployment: Deployment) -> tuple[Pool, ...]:
    return () if deployment.gateways == 0 else deployment.pools


def _refuse_all(deployment: Deployment) -> Resource:
    spec: dict[str, Any] = {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    return _policy(deployment, "refuse-all", "paceline", spec)


def _gateway_policy(deployment: Deployment) -> Resource:
    prometheus = {
        "namespaceSelector": {
            "matchLabels": {"kubernetes.io/metadata.name": deployment.monitoring.namespace}
        }
    }
    engines = [
        {"to": [{"podSelector": selector(engine_name(pool))}], "ports": _tcp(ENGINE_PORT)}
        for pool in _engine_pools(deployment)
    ]
    backends = [
        {"to": [{"namespaceSelector": {}}], "ports": _tcp(port)}
        for port in sorted({backend.port for backend in deployment.backends})
    ]
    egress = [_name_servers(), *engines, *backends]
    if deployment.gateways == 0:
        egress += _downloads(deployment)
    spec = {
        "podSelector": selector(GATEWAY),
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [
            # Clients have API keys; narrow this to your ingress controller where you have one.
            {"ports": _tcp(DATA_PORT)},
            {"from": [prometheus], "ports": _tcp(ADMIN_PORT)},
            # No rule for the port of the probes: a node always reaches its own pods.
        ],
        "egress": egress,
    }
    return _policy(deployment, GATEWAY, GATEWAY, spec)


def _engine_policy(deployment: Deployment, pool: Pool) -> Resource:
    name = engine_name(pool)
    ingress: list[dict[str, Any]] = [
        {"from": [{"podSelector": selector(GATEWAY)}], "ports": _tcp(ENGINE_PORT)}
    ]
    egress = [_name_servers(), *_downloads(deployment)]
    if pool.nodes_per_replica > 1:
        # The nodes of a replica exchange activations on ports that they choose.
        peers = [{"podSelector": selector(name)}]
        ingress.append({"from": peers})
        egress.append({"to": peers})
    spec = {
        "podSelector": selector(name),
        "policyTypes": ["Ingress", "Egress"],
        "ingress": ingress,
        "egress": egress,
    }
    return _policy(deployment, name, name, spec)


def _policy(deployment: Deployment, name: str, component: str, spec: dict[str, Any]) -> Resource:
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": metadata(deployment, name, component),
        "spec": spec,
    }


_NODE_LOCAL_DNS = "169.254.20.10/32"
"""Default address of Kubernetes' NodeLocal DNSCache, which runs in the network of the node."""


def _name_servers() -> dict[str, Any]:
    system = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}
    ports = [{"protocol": protocol, "port": 53} for protocol in ("UDP", "TCP")]
    return {"to": [system, {"ipBlock": {"cidr": _NODE_LOCAL_DNS}}], "ports": ports}


def _downloads(deployment: Deployment) -> list[dict[str, Any]]:
    """Weights from Hugging Face, whose addresses change."""
    if deployment.model_claim is not None:
        return []
    return [{"to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}], "ports": _tcp(443)}]


def _tcp(port: int) -> list[dict[str, Any]]:
    return [{"protocol": "TCP", "port": port}]
