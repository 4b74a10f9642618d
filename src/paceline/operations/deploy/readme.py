"""The README of a rendered deployment: what must exist before, how to apply it, what it costs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paceline.operations.deploy.resources.naming import (
    ENGINE_KEY_SECRET,
    HUGGING_FACE_SECRET,
    KEYS_SECRET,
)
from paceline.operations.deploy.resources.scaling import GROW_AFTER_S, QUEUE_LENGTH, SHRINK_AFTER_S
from paceline.operations.deploy.tiers import Tier
from paceline.operations.deploy.values import Deployment

_OTHER_ENGINES = (
    "The manifests of the pools trtllm and triton were written after the documentation and the "
    "source of these servers, and checked against Kubernetes' schemas. Nobody has started them: "
    "try one replica first. Clients choose such a pool by its model id."
)


_LOOKUPS = {"ngram": "n-gram lookup", "suffix": "suffix decoding"}


def render_readme(deployment: Deployment, tier: Tier, figures: Mapping[str, Any]) -> str:
    """Markdown."""
    parts = [
        f"# Paceline, tier {tier.name}",
        f"{tier.summary} Written by `paceline deploy render`; render again instead of editing.",
        "## Capacity and cost",
        _figures(figures),
        "## Before the first start",
        "The cluster needs:\n\n" + "\n".join(f"- {line}" for line in _needs(deployment)),
        "Create the namespace and the secrets. They are not in these files.",
        _code(_secret_commands(deployment)),
        "## Apply",
        _code(
            [
                "kubectl apply -k .",
                f"kubectl -n {deployment.namespace} get pods --watch",
                f"kubectl -n {deployment.namespace} port-forward service/paceline 8000",
            ]
        ),
    ]
    if any(pool.server != "vllm" for pool in deployment.pools):
        parts += ["## TensorRT-LLM and Triton", _OTHER_ENGINES]
    scaled = [pool.name for pool in deployment.pools if pool.scales and deployment.gateways > 0]
    if scaled:
        parts += [
            "## Scaling",
            f"Scaled by KEDA: {', '.join(scaled)}. A pool grows when {QUEUE_LENGTH} requests per "
            "replica wait, or when four fifths of the slots are in use, for "
            f"{GROW_AFTER_S} s, and shrinks after {SHRINK_AFTER_S} s without need. Without KEDA, "
            "use `alternatives/` instead.",
        ]
    if tier.later:
        parts += ["## Not there yet", "\n".join(f"- {line}." for line in tier.later)]
    return "\n\n".join(parts) + "\n"


def _figures(figures: Mapping[str, Any]) -> str:
    lines = [
        "| pool | model id | GPUs per replica | replicas | requests at once, per replica "
        "| output tokens/s, per replica |",
        "|---|---|---|---|---|---|",
    ]
    for pool in figures["pools"]:
        replicas = str(pool["min_replicas"])
        if pool["max_replicas"] > pool["min_replicas"]:
            replicas += f" to {pool['max_replicas']}"
        lines.append(
            f"| {pool['name']} | {pool['served_name']} | {pool['gpus_per_replica']} "
            f"{figures['gpu']} | {replicas} | {pool['slots_per_replica']} "
            f"| {pool['output_tokens_per_s_per_replica']:,.0f} |"
        )
    cost = figures["cost"]
    if cost["usd_per_month"] is None:
        bill = f"Cost: unknown ({cost['price_source']})."
    else:
        most = cost["usd_per_month_at_most"]
        scaled = "" if most is None else f", ${most:,.0f} with all replicas"
        bill = (
            f"Rent of the GPU machines: ${cost['usd_per_month']:,.0f} a month{scaled} "
            f"({cost['price_source']})."
        )
    note = "Planned, not measured: `paceline plan` computes these figures from data sheets."
    drafts = "".join(f"\n\n{_drafts(pool)}" for pool in figures["pools"] if pool["drafts"])
    return "\n".join(lines) + f"\n\n{bill} {note}{drafts}"


def _drafts(pool: Mapping[str, Any]) -> str:
    """What the drafter of a pool costs, and when it pays."""
    note = pool["drafts"]
    known = note["acceptance"]
    counted = (
        "Its acceptance on your traffic is unknown, so the figures above count no gain from drafts."
        if known is None
        else f"The figures above count an acceptance of {known:g}."
    )
    same = note["slots_without"] == pool["slots_per_replica"]
    without = (
        "It takes no memory, and the governor drafts only where it measures a gain."
        if same
        else f"Without it a replica holds {note['slots_without']} requests and gives "
        f"{note['output_tokens_per_s_without']:,.0f} tokens/s."
    )
    name = _LOOKUPS.get(note["name"], note["name"])
    lookup = ", if it drafts in every step," if same else ""
    return (
        f"The pool {pool['name']} drafts with {name}. {counted} {without} It pays"
        f"{lookup} {_from(note['break_even_alone'])} with one request at a time, and "
        f"{_from(note['break_even'])} with every slot in use. Measure the acceptance with "
        "`paceline bench run`, and render with `--acceptance`: then the draft model of the "
        "planner's table is deployed where it wins."
    )


def _from(break_even: float | None) -> str:
    if break_even is None:
        return "at no acceptance"
    return f"from an acceptance of {break_even:.2f}"


def _needs(deployment: Deployment) -> list[str]:
    needs = [
        "Kubernetes 1.30 or later (`preStop.sleep`), with a network plugin that enforces "
        "NetworkPolicies",
        "NVIDIA's device plugin and GPU feature discovery (both are in its GPU operator); nodes "
        f"with `nvidia.com/gpu.product` = {' or '.join(deployment.node.products)}",
        f"the image `{deployment.image}`, built from the project's Containerfiles",
    ]
    if deployment.gateway_image != deployment.image:
        needs.append(f"the image `{deployment.gateway_image}`, in the same way")
    others = [pool for pool in deployment.pools if pool.server != "vllm"]
    needs += [f"the image `{pool.image}` for the pool {pool.name}" for pool in others]
    if deployment.monitoring.operator:
        needs.append(
            f"the Prometheus Operator, in the namespace {deployment.monitoring.namespace}; its "
            "Prometheus must select the PodMonitor and the PrometheusRule of this namespace "
            "(`podMonitorSelector`, `podMonitorNamespaceSelector`, `ruleSelector`, "
            "`ruleNamespaceSelector`; the chart kube-prometheus-stack selects only those with the "
            "label `release` of its own installation)"
        )
    else:
        needs.append(
            f"a Prometheus in the namespace {deployment.monitoring.namespace} that scrapes pods by "
            'their annotations `prometheus.io/…`, gives the gateways the labels `job="paceline"` '
            "and `namespace`, and has the ConfigMap `paceline-rules` among its `rule_files`"
        )
    if deployment.gateways > 0 and any(pool.scales for pool in deployment.pools):
        needs.append(f"KEDA, which reaches Prometheus at {deployment.monitoring.prometheus_url}")
    if any(pool.nodes_per_replica > 1 for pool in deployment.pools):
        needs.append("LeaderWorkerSet, for replicas over several nodes")
    if deployment.model_claim is not None:
        folders = sorted({pool.model for pool in deployment.pools})
        needs.append(
            f"the PersistentVolumeClaim `{deployment.model_claim}` with the folders that the pods "
            f"see as {', '.join(folders)}, and those of the drafts"
        )
    return needs


def _secret_commands(deployment: Deployment) -> list[str]:
    space = f"-n {deployment.namespace}"
    commands = [
        "kubectl apply -f namespace.yaml",
        "paceline keys create --tenant you --file keys            # prints the key of a client",
        "paceline keys create --admin --tenant you --file admin-keys",
        "openssl rand -hex 32 > salt",
        f"kubectl {space} create secret generic {KEYS_SECRET} \\",
        "    --from-file=keys --from-file=admin-keys --from-file=salt",
    ]
    if deployment.gateways > 0:
        commands += [
            "openssl rand -hex 32 | tr -d '\\n' > key    # between gateway and engines",
            f"kubectl {space} create secret generic {ENGINE_KEY_SECRET} --from-file=key",
        ]
    if deployment.model_claim is None:
        commands.append(
            f"kubectl {space} create secret generic {HUGGING_FACE_SECRET} "
            "--from-literal=token=hf_…   # for gated models"
        )
    return commands


def _code(lines: list[str]) -> str:
    return "\n".join(["```", *lines, "```"])
