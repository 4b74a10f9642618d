"""How Prometheus and Grafana find a deployment: scraping, alert rules, dashboards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from paceline.operations.deploy.resources.naming import (
    ADMIN_PORT,
    GATEWAY,
    Resource,
    metadata,
    selector,
)
from paceline.operations.deploy.values import DeployError, Deployment

_SCRAPE_PERIOD_S = 15
"""A quarter of the 60 s that a queue must last before a pool grows."""


def scrape_annotations(deployment: Deployment) -> dict[str, str]:
    """Annotations of the gateway's pods, for a Prometheus without the operator."""
    if deployment.monitoring.operator:
        return {}
    return {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": str(ADMIN_PORT),
        "prometheus.io/path": "/metrics",
    }


def pod_monitor(deployment: Deployment) -> Resource:
    """The PodMonitor of the gateways. Engines are read by the gateways only."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PodMonitor",
        "metadata": metadata(deployment, "paceline", GATEWAY),
        "spec": {
            # The alert rules select the job `paceline`; by default it would be the monitor's name.
            "jobLabel": "app.kubernetes.io/part-of",
            "selector": selector(GATEWAY),
            "podMetricsEndpoints": [
                {"port": "admin", "path": "/metrics", "interval": f"{_SCRAPE_PERIOD_S}s"}
            ],
        },
    }


def alert_rules(deployment: Deployment, rules: Mapping[str, str]) -> list[Resource]:
    """The rule files (name to text) for Prometheus: one resource for each, by name.

    With the operator they are PrometheusRules, otherwise ConfigMaps to mount into Prometheus.
    """
    if not deployment.monitoring.operator:
        return [
            _config_map(deployment, _resource_name(name), {name: rules[name]}, {})
            for name in sorted(rules)
        ]
    return [
        {
            "apiVersion": "monitoring.coreos.com/v1",
            "kind": "PrometheusRule",
            "metadata": metadata(deployment, _resource_name(name), GATEWAY),
            "spec": {"groups": _groups(name, rules[name])},
        }
        for name in sorted(rules)
    ]


def dashboards(deployment: Deployment, files: Mapping[str, str]) -> list[Resource]:
    """Grafana dashboards (name to text) as ConfigMaps, which its sidecar finds by their label."""
    found = {"grafana_dashboard": "1"}
    return [
        _config_map(deployment, _resource_name(name), {name: files[name]}, found)
        for name in sorted(files)
    ]


def _config_map(
    deployment: Deployment, name: str, data: dict[str, str], more_labels: Mapping[str, str]
) -> Resource:
    described = metadata(deployment, name, GATEWAY)
    described["labels"] = {**described["labels"], **more_labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": described, "data": data}


def _resource_name(file_name: str) -> str:
    stem = file_name.rpartition(".")[0] or file_name
    plain = stem.replace("_", "-").replace(".", "-").lower()
    return plain if plain.startswith("paceline-") else f"paceline-{plain}"


def _groups(name: str, text: str) -> list[Any]:
    document = yaml.safe_load(text)
    if not isinstance(document, dict) or not isinstance(document.get("groups"), list):
        raise DeployError(f"the rule file {name} has no list of groups")
    groups: list[Any] = document["groups"]
    return groups
