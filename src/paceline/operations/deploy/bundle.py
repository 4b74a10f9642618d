"""The files of a deployment: manifests, alternatives, a kustomization, a README and a summary."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from paceline.operations.deploy.readme import render_readme
from paceline.operations.deploy.resources import (
    cluster,
    engines,
    gateway,
    monitoring,
    network,
    other_engines,
    scaling,
)
from paceline.operations.deploy.resources.naming import Resource
from paceline.operations.deploy.resources.settings import settings_map
from paceline.operations.deploy.summary import SCHEMA_VERSION, SUMMARY
from paceline.operations.deploy.tiers import Tier
from paceline.operations.deploy.values import Deployment
from paceline.operations.deploy.yaml_text import render_documents, render_yaml


@dataclass(frozen=True, slots=True)
class MonitoringFiles:
    """Alert rules and dashboards, from file name to text."""

    rules: Mapping[str, str]
    dashboards: Mapping[str, str]


def render_bundle(
    deployment: Deployment,
    tier: Tier,
    figures: Mapping[str, Any],
    monitoring_files: MonitoringFiles | None = None,
) -> dict[str, str]:
    """Return the text of every file by its path. Pure: the same values give the same bytes.

    `figures` are capacity and cost, for the summary and the README.
    """
    manifests = dict(_manifests(deployment, monitoring_files))
    files = {
        name: render_documents(
            resources, (f"Written by `paceline deploy render`, tier {tier.name}.",)
        )
        for name, resources in manifests.items()
    }
    files["kustomization.yaml"] = _kustomization(tier, list(manifests))
    files |= dict(_alternatives(deployment))
    summary = {
        "schema_version": SCHEMA_VERSION,
        "tier": tier.name,
        "image": deployment.image,
        "gateway_image": deployment.gateway_image,
        "gateways": max(1, deployment.gateways),
        **figures,
    }
    files[SUMMARY] = json.dumps(summary, indent=1) + "\n"
    files["README.md"] = render_readme(deployment, tier, figures)
    return files


def _manifests(
    deployment: Deployment, files: MonitoringFiles | None
) -> Iterator[tuple[str, list[Resource]]]:
    yield "namespace.yaml", [cluster.namespace(deployment), cluster.service_account(deployment)]
    yield "network-policies.yaml", network.network_policies(deployment)
    settings = settings_map(deployment)
    yield "settings.yaml", [settings]
    digest = hashlib.sha256(settings["data"]["paceline.yaml"].encode()).hexdigest()[:16]
    yield (
        "gateway.yaml",
        [gateway.gateway_deployment(deployment, digest), gateway.gateway_service(deployment)],
    )
    budgets = cluster.disruption_budgets(deployment)
    if budgets:
        yield "disruption-budgets.yaml", budgets
    if deployment.gateways > 0:
        for pool in deployment.pools:
            resources = [
                *other_engines.settings_maps(deployment, pool),
                engines.engine_workload(deployment, pool),
                engines.engine_service(deployment, pool),
            ]
            if pool.scales:
                resources.append(scaling.scaled_object(deployment, pool))
            yield f"engine-{pool.name}.yaml", resources
    yield from _monitoring(deployment, files)


def _monitoring(
    deployment: Deployment, files: MonitoringFiles | None
) -> Iterator[tuple[str, list[Resource]]]:
    if deployment.monitoring.operator:
        yield "scraping.yaml", [monitoring.pod_monitor(deployment)]
    if files is not None and files.rules:
        yield "alert-rules.yaml", monitoring.alert_rules(deployment, files.rules)
    if files is not None and files.dashboards:
        yield "dashboards.yaml", monitoring.dashboards(deployment, files.dashboards)


def _alternatives(deployment: Deployment) -> Iterator[tuple[str, str]]:
    """What replaces a part of the deployment; no kustomization applies it."""
    scaled = [pool for pool in deployment.pools if pool.scales and deployment.gateways > 0]
    if not scaled:
        return
    yield (
        "alternatives/horizontal-pod-autoscaler.yaml",
        render_documents(
            [scaling.horizontal_pod_autoscaler(deployment, pool) for pool in scaled],
            (
                "Instead of the ScaledObjects, where KEDA is not installed: remove them first.",
                "Needs prometheus-adapter with prometheus-adapter-rules.yaml.",
            ),
        ),
    )
    yield (
        "alternatives/prometheus-adapter-rules.yaml",
        "# For the configuration of prometheus-adapter; no resource of Kubernetes.\n"
        + render_yaml(scaling.adapter_rules(deployment)),
    )


def _kustomization(tier: Tier, names: list[str]) -> str:
    comments = [f"Written by `paceline deploy render`. Tier {tier.name}: {tier.summary}"]
    if tier.later:
        comments.append("Not applied, because Paceline cannot do it yet:")
        comments += [f"- {line}." for line in tier.later]
    document = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": names,
    }
    return render_documents([document], comments)
