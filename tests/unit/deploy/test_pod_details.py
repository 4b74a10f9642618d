"""What a pod needs from its manifest and from others: folders, keys, ports, probes, roll-outs."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import pytest
import yaml

from unit.deploy.rendering import of_kind, pods
from unit.deploy.test_manifests import every_variant, rendered

_GIB = {"Gi": 1.0, "Mi": 1 / 1024}


def _gib(size: str) -> float:
    return float(size[:-2]) * _GIB[size[-2:]]


def _settings(files: dict[str, str]) -> dict[str, Any]:
    text = of_kind(files, "ConfigMap")["paceline-settings"]["data"]["paceline.yaml"]
    settings: dict[str, Any] = yaml.safe_load(text)
    return settings


def _has_gpus(container: dict[str, Any]) -> bool:
    return "nvidia.com/gpu" in container["resources"]["limits"]


def _runs_vllm(pod: dict[str, Any]) -> bool:
    command: list[str] = pod["containers"][0]["command"]
    return command == ["vllm", "serve"]


@every_variant
def test_a_pod_can_write_where_its_programs_do(variant: str) -> None:
    for pod in pods(rendered(variant)).values():
        (container,) = pod["containers"]
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        empty = {
            mount["mountPath"]: volumes[mount["name"]]["emptyDir"]
            for mount in container["volumeMounts"]
            if "emptyDir" in volumes[mount["name"]]
        }
        values = {entry["name"]: entry.get("value") for entry in container["env"]}
        assert "/tmp" in empty
        for name in ("HOME", "XDG_STATE_HOME", "VLLM_CACHE_ROOT"):
            if name in values:
                path = PurePosixPath(values[name])
                assert any(path.is_relative_to(folder) for folder in empty), name
        assert {"HOME", "XDG_STATE_HOME"} <= values.keys()
        # Files of emptyDirs and secrets have this group.
        assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"] == 10_001
        on_disk = [entry for entry in empty.values() if entry.get("medium") != "Memory"]
        disk_gib = sum(_gib(entry["sizeLimit"]) for entry in on_disk)
        assert disk_gib <= _gib(container["resources"]["limits"]["ephemeral-storage"])
        if _has_gpus(container):
            shared = empty["/dev/shm"]
            assert shared["medium"] == "Memory"
            memory_gib = _gib(container["resources"]["limits"]["memory"])
            assert 1 <= _gib(shared["sizeLimit"]) <= memory_gib / 8


@every_variant
def test_the_files_of_all_keys_are_mounted_from_secrets_that_the_readme_creates(
    variant: str,
) -> None:
    files = rendered(variant)
    settings, readme = _settings(files), files["README.md"]
    pod = of_kind(files, "Deployment")["gateway"]["spec"]["template"]["spec"]
    secrets = {volume["name"]: volume["secret"] for volume in pod["volumes"] if "secret" in volume}
    mounted = {}
    for mount in pod["containers"][0]["volumeMounts"]:
        for item in secrets.get(mount["name"], {"items": ()})["items"]:
            path = f"{mount['mountPath']}/{item['path']}"
            mounted[path] = (secrets[mount["name"]]["secretName"], item["key"])
    keys = settings["keys"]
    used = {keys["file"], keys["admin_key_file"], keys["salt_file"]}
    used |= {entry["key_file"] for entry in settings.get("replicas", ()) if "key_file" in entry}
    assert used == set(mounted)
    for secret, key in mounted.values():
        assert f"secret generic {secret}" in readme
        assert f"--from-file={key}" in readme
    assert all(entry["defaultMode"] == 0o400 for entry in secrets.values())


@every_variant
def test_engines_accept_the_key_that_gateways_send(variant: str) -> None:
    files = rendered(variant)
    pod = of_kind(files, "Deployment")["gateway"]["spec"]["template"]["spec"]
    sent = [
        (volume["secret"]["secretName"], volume["secret"]["items"][0]["key"])
        for volume in pod["volumes"]
        if volume["name"] == "engine-key"
    ]
    # test_other_engines has the servers that are not vLLM.
    engines = [engine for engine in pods(files).values() if _runs_vllm(engine)]
    assert (variant in ("startup", "claim")) == (engines == [])
    for engine in engines:
        values = {entry["name"]: entry for entry in engine["containers"][0]["env"]}
        reference = values["VLLM_API_KEY"]["valueFrom"]["secretKeyRef"]
        assert [(reference["name"], reference["key"])] == sent


@every_variant
def test_probes_ask_what_they_are_for(variant: str) -> None:
    for name, pod in pods(rendered(variant)).items():
        (container,) = pod["containers"]
        start, ready = (
            container[probe]["httpGet"]["path"] for probe in ("startupProbe", "readinessProbe")
        )
        if name == "gateway":
            # A gateway without engines has started when it answers; one with an engine, when that
            # is ready.
            assert start == ("/ready" if _has_gpus(container) else "/health")
            assert ready == "/ready"
            assert container["livenessProbe"]["httpGet"]["path"] == "/health"
            continue
        if not _runs_vllm(pod):
            continue
        assert (start, ready) == ("/health", "/health")
        liveness = container["livenessProbe"]
        (limit,) = [
            part.removeprefix("--limit-s=")
            for part in liveness["exec"]["command"]
            if part.startswith("--limit-s=")
        ]
        # The gateway ends the requests of a silent replica after 225 s at most (docs/gateway.md).
        assert 225 < float(limit) <= 600
        # The probe itself waits for the metrics for 5 s.
        assert liveness["timeoutSeconds"] > 5


@every_variant
def test_no_client_reaches_the_port_of_the_probes(variant: str) -> None:
    """Clients could keep probes out of a port that they reach, and the kubelet would restart it."""
    files = rendered(variant)
    (container,) = pods(files)["gateway"]["containers"]
    probes = ("startupProbe", "readinessProbe", "livenessProbe")
    assert [container[probe]["httpGet"]["port"] for probe in probes] == ["probes"] * 3
    text = of_kind(files, "ConfigMap")["paceline-settings"]["data"]["paceline.yaml"]
    assert yaml.safe_load(text)["server"]["probe_port"] == 8002
    for service in of_kind(files, "Service").values():
        assert not {"probes", 8002} & {
            value for port in service["spec"]["ports"] for value in port.values()
        }
    for policy in of_kind(files, "NetworkPolicy").values():
        for rule in policy["spec"].get("ingress", ()):
            assert 8002 not in [port["port"] for port in rule.get("ports", ())]


@every_variant
def test_ports_are_those_that_services_probes_and_prometheus_name(variant: str) -> None:
    files = rendered(variant)
    serving = pods(files)
    ports = {
        name: {port["name"]: port["containerPort"] for port in pod["containers"][0]["ports"]}
        for name, pod in serving.items()
    }
    assert ports["gateway"] == {"http": 8000, "admin": 8001, "probes": 8002}
    for name, pod in serving.items():
        probed = pod["containers"][0]["readinessProbe"]["httpGet"]["port"]
        assert probed == ("probes" if name == "gateway" else "http")
    for name, service in of_kind(files, "Service").items():
        (port,) = service["spec"]["ports"]
        assert (port["port"], port["targetPort"]) == (8000, "http")
        # Without an address of its own, the name has those of all pods.
        assert service["spec"].get("clusterIP") == (None if name == "paceline" else "None")
    for monitor in of_kind(files, "PodMonitor").values():
        assert [end["port"] for end in monitor["spec"]["podMetricsEndpoints"]] == ["admin"]
    policy = of_kind(files, "NetworkPolicy")["gateway"]["spec"]
    peers = [(rule.get("from"), rule["ports"]) for rule in policy["ingress"]]
    prometheus = [
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    ]
    assert peers == [
        (None, [{"protocol": "TCP", "port": 8000}]),
        (prometheus, [{"protocol": "TCP", "port": 8001}]),
    ]


@every_variant
def test_weights_may_come_from_any_address_unless_they_are_on_a_claim(variant: str) -> None:
    anywhere = {
        "to": [{"ipBlock": {"cidr": "0.0.0.0/0"}}],
        "ports": [{"protocol": "TCP", "port": 443}],
    }
    files = rendered(variant)
    policies = of_kind(files, "NetworkPolicy")
    for name, pod in pods(files).items():
        loads = _has_gpus(pod["containers"][0]) and variant != "claim"
        assert (anywhere in policies[name]["spec"]["egress"]) == loads, name


@every_variant
def test_a_roll_out_and_a_drained_node_leave_the_service_up(variant: str) -> None:
    files = rendered(variant)
    gateway = of_kind(files, "Deployment")["gateway"]["spec"]
    budgets = of_kind(files, "PodDisruptionBudget")
    if variant in ("startup", "claim"):
        # The only GPU is taken, and the node of the only pod must be drainable.
        assert gateway["strategy"] == {"type": "Recreate"}
        assert budgets == {}
        return
    assert gateway["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert gateway["replicas"] >= 2
    assert set(budgets) == set(of_kind(files, "Deployment"))
    for name, budget in budgets.items():
        assert budget["spec"]["maxUnavailable"] == 1
        selector = of_kind(files, "Deployment")[name]["spec"]["selector"]
        assert budget["spec"]["selector"] == selector


@pytest.mark.parametrize(
    ("variant", "pod", "resources"),
    [
        # g6.xlarge has 4 processors and 16 GiB, g6e.12xlarge 48 and 384 for its four GPUs;
        # machines with 8 H100 have at least 104 processors and 1.5 TiB.
        ("startup", "gateway", {"cpu": "3", "memory": "11Gi", "nvidia.com/gpu": "1"}),
        ("mid-market", "engine-main", {"cpu": "6", "memory": "48Gi", "nvidia.com/gpu": "2"}),
        ("enterprise", "engine-main", {"cpu": "48", "memory": "512Gi", "nvidia.com/gpu": "4"}),
    ],
)
def test_an_engine_asks_for_no_more_than_its_share_of_a_machine(
    variant: str, pod: str, resources: dict[str, str]
) -> None:
    (container,) = pods(rendered(variant))[pod]["containers"]
    asked = container["resources"]["requests"]
    assert asked == container["resources"]["limits"]
    assert {name: asked[name] for name in resources} == resources
