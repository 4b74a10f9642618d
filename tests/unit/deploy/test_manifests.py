"""The manifests of every tier: valid, safe, and drained before they are killed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from paceline.runtime.config.tree import Settings
from paceline.runtime.gateway.metrics.metrics import GatewayMetrics
from unit.deploy.rendering import TIERS, documents, of_kind, pods, render

_SCHEMAS = Path(__file__).parent / "schemas"
_MULTI_NODE = (
    "Qwen/Qwen3-32B", "--tier", "mid-market", "--gpu", "l40s",
    "--tensor-parallel", "2", "--nodes-per-replica", "2",
)  # fmt: skip
_VARIANTS = {
    **{tier: ("--tier", tier) for tier in TIERS},
    "several nodes": _MULTI_NODE,
    "no operator": ("--tier", "mid-market", "--monitoring", "annotations"),
    "claim": ("--tier", "startup", "--model-claim", "models"),
    "other engines": ("--tier", "mid-market", "--pool", "trtllm", "--pool", "triton"),
    "backends": ("--tier", "mid-market", "--backend", "trtllm=trt.models.svc:8000"),
}


@cache
def rendered(variant: str) -> dict[str, str]:
    return render(*_VARIANTS[variant])


every_variant = pytest.mark.parametrize("variant", _VARIANTS)


@cache
def _validator(kind: str) -> jsonschema.Draft202012Validator:
    core = json.loads((_SCHEMAS / "kubernetes.json").read_text())
    if kind == "PodTemplate":
        schema = {"$ref": "#/$defs/io.k8s.api.core.v1.PodTemplateSpec", "$defs": core["$defs"]}
    elif kind in core["kinds"]:
        schema = {**core["kinds"][kind], "$defs": core["$defs"]}
    else:
        schema = json.loads((_SCHEMAS / f"{kind.lower()}.json").read_text())
    return jsonschema.Draft202012Validator(schema)


def _errors(resource: dict[str, Any]) -> list[str]:
    if resource["kind"] == "LeaderWorkerSet":  # no package has its schema
        template = resource["spec"]["leaderWorkerTemplate"]
        return [
            error.message
            for name in ("leaderTemplate", "workerTemplate")
            for error in _validator("PodTemplate").iter_errors(template[name])
        ]
    return [error.message for error in _validator(resource["kind"]).iter_errors(resource)]


@every_variant
def test_every_resource_fits_the_schema_of_its_kind(variant: str) -> None:
    for resource in documents(rendered(variant)):
        assert _errors(resource) == [], resource["metadata"]["name"]


@pytest.mark.parametrize("kind", ["Deployment", "ScaledObject", "PodMonitor", "LeaderWorkerSet"])
def test_the_schemas_refuse_an_unknown_field(kind: str) -> None:
    variant = "several nodes" if kind == "LeaderWorkerSet" else "mid-market"
    text = json.dumps(next(iter(of_kind(rendered(variant), kind).values())))
    for known in ("automountServiceAccountToken", "pollingInterval", "interval"):
        text = text.replace(f'"{known}"', f'"{known}s"')
    assert _errors(json.loads(text))


@every_variant
def test_a_pod_ends_its_requests_before_it_is_killed(variant: str) -> None:
    files = rendered(variant)
    settings = yaml.safe_load(
        of_kind(files, "ConfigMap")["paceline-settings"]["data"]["paceline.yaml"]
    )
    for name, pod in pods(files).items():
        (container,) = pod["containers"]
        if name == "gateway":
            server = settings["server"]
            leave_s = server["lame_duck_s"] + server["drain_timeout_s"]
            probe = container["readinessProbe"]
            assert probe["periodSeconds"] * probe["failureThreshold"] < server["lame_duck_s"]
        else:
            args = container["args"]
            waits_s = container["lifecycle"]["preStop"]["sleep"]["seconds"]
            assert waits_s > 2 * settings["fleet"]["dns_period_s"]
            # Other servers than vLLM have no limit of their own.
            limit_s = settings["server"]["drain_timeout_s"]
            if container["command"] == ["vllm", "serve"]:
                limit_s = int(args[args.index("--shutdown-timeout") + 1])
            leave_s = waits_s + limit_s
        assert leave_s < pod["terminationGracePeriodSeconds"]


@every_variant
def test_every_serving_container_has_probes_and_a_start_that_lasts(variant: str) -> None:
    for name, pod in pods(rendered(variant)).items():
        (container,) = pod["containers"]
        assert {"startupProbe", "readinessProbe", "livenessProbe"} <= container.keys()
        start = container["startupProbe"]
        if any("nvidia.com/gpu" in values for values in container["resources"].values()):
            assert start["periodSeconds"] * start["failureThreshold"] >= 900, name


@every_variant
def test_pods_have_no_privileges_and_no_rights(variant: str) -> None:
    for pod in pods(rendered(variant)).values():
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["automountServiceAccountToken"] is False
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["requests"].keys() == container["resources"]["limits"].keys()


@every_variant
def test_service_links_are_off_because_they_would_be_read_as_settings(variant: str) -> None:
    assert all(pod["enableServiceLinks"] is False for pod in pods(rendered(variant)).values())


@every_variant
def test_engines_run_on_the_gpu_that_was_planned(variant: str) -> None:
    expected = {"startup": "NVIDIA-L4", "claim": "NVIDIA-L4", "enterprise": "NVIDIA-H100-80GB-HBM3"}
    for pod in pods(rendered(variant)).values():
        (container,) = pod["containers"]
        if "nvidia.com/gpu" not in container["resources"]["limits"]:
            continue
        (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]
        (wanted,) = term["matchExpressions"]
        assert wanted["key"] == "nvidia.com/gpu.product"
        assert wanted["values"] == [expected.get(variant, "NVIDIA-L40S")]


@every_variant
def test_the_settings_are_valid_and_name_every_pool(variant: str) -> None:
    files = rendered(variant)
    text = of_kind(files, "ConfigMap")["paceline-settings"]["data"]["paceline.yaml"]
    settings = Settings.model_validate(yaml.safe_load(text))
    services = of_kind(files, "Service")
    backends = [entry for entry in settings.replicas if str(entry.name).startswith("trtllm-")]
    own = [entry for entry in settings.replicas if entry not in backends]
    assert {entry.dns for entry in own} == {
        f"{name}.paceline.svc:8000" for name in services if name != "paceline"
    }
    for entry in own:
        workload = {**of_kind(files, "Deployment"), **of_kind(files, "LeaderWorkerSet")}
        assert f"engine-{entry.name}" in workload


@every_variant
def test_only_gateways_reach_engines_and_only_prometheus_the_admin_port(variant: str) -> None:
    policies = of_kind(rendered(variant), "NetworkPolicy")
    everything = policies.pop("refuse-all")["spec"]
    assert everything == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for name, policy in policies.items():
        for rule in policy["spec"]["ingress"]:
            allowed = [peer["podSelector"]["matchLabels"] for peer in rule.get("from", ())
                       if "podSelector" in peer]  # fmt: skip
            if name == "gateway":
                ports = [port["port"] for port in rule["ports"]]
                assert ports == [8000] or "from" in rule
            else:
                names = {labels["app.kubernetes.io/name"] for labels in allowed}
                assert names in ({"gateway"}, {name})
                assert len(allowed) == len(rule["from"])


@every_variant
def test_every_pod_may_ask_the_name_servers_of_the_cluster_and_of_its_node(variant: str) -> None:
    """A cache on the node has an address of its own and is no pod that a selector could find."""
    policies = of_kind(rendered(variant), "NetworkPolicy")
    del policies["refuse-all"]
    for policy in policies.values():
        (rule,) = [
            rule
            for rule in policy["spec"]["egress"]
            if {"protocol": "UDP", "port": 53} in rule.get("ports", ())
        ]
        assert rule["ports"][1] == {"protocol": "TCP", "port": 53}
        namespaces, node = rule["to"]
        assert namespaces["namespaceSelector"]["matchLabels"] == {
            "kubernetes.io/metadata.name": "kube-system"
        }
        assert node == {"ipBlock": {"cidr": "169.254.20.10/32"}}


@pytest.mark.parametrize("tier", ["mid-market", "enterprise"])
def test_gateways_know_a_new_engine_before_the_next_one_leaves(tier: str) -> None:
    files = rendered(tier)
    settings = of_kind(files, "ConfigMap")["paceline-settings"]["data"]["paceline.yaml"]
    period_s = yaml.safe_load(settings)["fleet"]["dns_period_s"]
    engines = of_kind(files, "Deployment")
    del engines["gateway"]
    for engine in engines.values():
        assert engine["spec"]["minReadySeconds"] >= 2 * period_s
        assert engine["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


@pytest.mark.parametrize("tier", ["mid-market", "enterprise"])
def test_pools_scale_by_queue_and_by_running_requests(tier: str) -> None:
    files = rendered(tier)
    scaled = of_kind(files, "ScaledObject")
    assert scaled
    for name, entry in scaled.items():
        spec = entry["spec"]
        behavior = spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"]
        assert behavior["scaleUp"]["stabilizationWindowSeconds"] == 60
        assert behavior["scaleDown"]["stabilizationWindowSeconds"] == 300
        queue, running = (trigger["metadata"] for trigger in spec["triggers"])
        assert queue["threshold"] == "10"
        # The requests for this model only: those of another pool must not make this one grow.
        args = of_kind(files, "Deployment")[name]["spec"]["template"]["spec"]["containers"][0][
            "args"
        ]
        model = args[args.index("--served-model-name") + 1]
        waits = f'paceline_admission_queue_length{{namespace="paceline",model="{model}"}}'
        assert queue["query"].startswith(f"(sum({waits}) or vector(0)) + (")
        text = of_kind(files, "ConfigMap")["paceline-settings"]["data"]["paceline.yaml"]
        (slots,) = [
            replica["max_in_flight"]
            for replica in yaml.safe_load(text)["replicas"]
            if f"engine-{replica['name']}" == name
        ]
        assert int(running["threshold"]) == int(0.8 * slots)
        # The Deployment names no replicas: applying it again would undo the scaling.
        assert "replicas" not in of_kind(files, "Deployment")[name]["spec"]
        alternative = of_kind(files, "HorizontalPodAutoscaler")[name]["spec"]
        assert alternative["behavior"] == behavior
        assert alternative["maxReplicas"] == spec["maxReplicaCount"]


def test_the_queries_read_metrics_that_the_gateway_has() -> None:
    page = GatewayMetrics().render((), {}, {}, {}).decode()
    known = set(re.findall(r"^# HELP (\w+)", page, re.MULTILINE))
    text = "".join(entry for name, entry in rendered("enterprise").items() if "engine-" in name)
    used = set(re.findall(r"paceline_\w+(?=\{)", text))
    assert used
    assert used <= known


def test_gateways_are_scraped_as_the_job_that_the_alert_rules_select() -> None:
    files = rendered("mid-market")
    monitor = of_kind(files, "PodMonitor")["paceline"]["spec"]
    labels = of_kind(files, "Deployment")["gateway"]["spec"]["template"]["metadata"]["labels"]
    assert labels[monitor["jobLabel"]] == "paceline"
    assert monitor["selector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize("tier", TIERS)
def test_what_paceline_cannot_do_yet_is_a_comment_and_no_resource(tier: str) -> None:
    files = rendered(tier)
    later = re.compile("redis|semantic|canary|region", re.IGNORECASE)
    for name, text in files.items():
        if name.endswith(".yaml"):
            assert not later.search(json.dumps(list(yaml.safe_load_all(text))))
    comments = [line for line in files["kustomization.yaml"].splitlines() if line.startswith("#")]
    assert any(later.search(line) for line in comments) == (tier != "startup")


def test_nothing_alternative_is_applied() -> None:
    files = rendered("mid-market")
    applied = yaml.safe_load(files["kustomization.yaml"])["resources"]
    assert "engine-main.yaml" in applied
    assert not [name for name in applied if name.startswith("alternatives/")]
    missing = [name for name in applied if name not in files]
    assert missing == []


def test_a_replica_over_several_nodes_is_a_leader_and_headless_workers() -> None:
    (group,) = of_kind(rendered("several nodes"), "LeaderWorkerSet").values()
    template = group["spec"]["leaderWorkerTemplate"]
    (leader,) = template["leaderTemplate"]["spec"]["containers"]
    (worker,) = template["workerTemplate"]["spec"]["containers"]
    assert template["size"] == 2
    assert leader["args"][leader["args"].index("--pipeline-parallel-size") + 1] == "2"
    assert leader["args"][leader["args"].index("--tensor-parallel-size") + 1] == "2"
    assert worker["args"] == [*leader["args"], "--headless"]
    assert "--speculative-config" not in leader["args"]


def test_the_service_of_a_replica_over_several_nodes_leaves_the_name_of_its_set_free() -> None:
    """LeaderWorkerSet makes a Service of its own name, by which workers find a leader that is not
    ready yet. Where that Service exists already, it makes none."""
    files = rendered("several nodes")
    (group,) = of_kind(files, "LeaderWorkerSet")
    assert group not in of_kind(files, "Service")


def test_workers_last_as_long_as_the_requests_of_their_leader() -> None:
    (group,) = of_kind(rendered("several nodes"), "LeaderWorkerSet").values()
    template = group["spec"]["leaderWorkerTemplate"]
    leader, worker = (template[name]["spec"] for name in ("leaderTemplate", "workerTemplate"))
    (serving,), (computing,) = leader["containers"], worker["containers"]
    drain_s = int(serving["args"][serving["args"].index("--shutdown-timeout") + 1])
    leaves_s = serving["lifecycle"]["preStop"]["sleep"]["seconds"] + drain_s
    assert computing["lifecycle"]["preStop"]["sleep"]["seconds"] == leaves_s
    assert leaves_s < worker["terminationGracePeriodSeconds"]


def test_weights_on_a_claim_need_no_network() -> None:
    files = rendered("claim")
    (policy,) = [
        entry for name, entry in of_kind(files, "NetworkPolicy").items() if name == "gateway"
    ]
    ports = {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]}
    assert ports == {53}
    settings = yaml.safe_load(
        of_kind(files, "ConfigMap")["paceline-settings"]["data"]["paceline.yaml"]
    )
    assert settings["engine"]["model"] == "/models/Qwen3-8B-FP8"
    assert settings["engine"]["draft"] == "ngram"


def test_the_same_options_give_the_same_bytes(tmp_path: Path) -> None:
    texts = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        subprocess.run(
            [sys.executable, "-c", "from paceline.cli import main; main()", "deploy", "render",
             "--tier", "enterprise", "--backend", "triton=triton.models.svc:9000",
             "--out", str(folder)],
            check=True, capture_output=True, env={**os.environ, "PYTHONHASHSEED": seed},
        )  # fmt: skip
        texts.append({path.relative_to(folder): path.read_bytes()
                      for path in folder.rglob("*") if path.is_file()})  # fmt: skip
    assert texts[0] == texts[1]
    assert len(texts[0]) > 10
