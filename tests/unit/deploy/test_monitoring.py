"""Rule files and dashboards become resources that the operator and Grafana find."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml

from paceline.operations.deploy.bundle import MonitoringFiles, render_bundle
from paceline.operations.deploy.tiers import GPU_NODES, find_tier
from paceline.operations.deploy.values import DeployError, Deployment, Monitoring, Pool
from unit.deploy.rendering import of_kind, render

_RULES = "groups:\n- name: speculation\n  rules:\n  - alert: Low\n    expr: up == 0\n"
_POOL = Pool("main", "m", "m", (), {"model": "m"}, weights_bytes=10**9, slots=8, gpus=1)
_DEPLOYMENT = Deployment(
    tier="startup",
    namespace="paceline",
    image="paceline:1",
    gateway_image="paceline:1",
    gateways=0,
    pools=(_POOL,),
    node=GPU_NODES["l4"],
    monitoring=Monitoring(True, "monitoring", "http://prometheus:9090"),
)
_FIGURES = {
    "gpu": "l4",
    "pools": [],
    "cost": {"usd_per_month": None, "price_source": "no price"},
}


def _resources(deployment: Deployment, files: MonitoringFiles | None) -> dict[str, str]:
    return render_bundle(deployment, find_tier("startup"), _FIGURES, files)


def test_rules_are_a_prometheus_rule_and_dashboards_labelled_config_maps() -> None:
    files = MonitoringFiles({"paceline_alerts.yaml": _RULES}, {"governor.json": '{"panels": []}'})
    rendered = _resources(_DEPLOYMENT, files)
    rule = yaml.safe_load(rendered["alert-rules.yaml"])
    assert (rule["kind"], rule["metadata"]["name"]) == (
        "PrometheusRule",
        "paceline-alerts",
    )
    assert rule["spec"]["groups"][0]["rules"][0]["alert"] == "Low"
    dashboard = yaml.safe_load(rendered["dashboards.yaml"])
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert dashboard["data"] == {"governor.json": '{"panels": []}'}
    applied = yaml.safe_load(rendered["kustomization.yaml"])["resources"]
    assert {"alert-rules.yaml", "dashboards.yaml"} <= set(applied)


def test_without_the_operator_rules_are_a_config_map() -> None:
    plain = replace(
        _DEPLOYMENT, monitoring=Monitoring(False, "monitoring", "http://prometheus:9090")
    )
    rendered = _resources(plain, MonitoringFiles({"alerts.yaml": _RULES}, {}))
    entry = yaml.safe_load(rendered["alert-rules.yaml"])
    assert entry["kind"] == "ConfigMap"
    assert entry["data"] == {"alerts.yaml": _RULES}
    # No dashboards: no empty file, which kubectl would refuse.
    assert "dashboards.yaml" not in rendered


def test_without_files_there_is_nothing_for_them() -> None:
    rendered = _resources(_DEPLOYMENT, None)
    assert not {"alert-rules.yaml", "dashboards.yaml"} & rendered.keys()


def test_a_rule_file_without_groups_is_refused() -> None:
    with pytest.raises(DeployError, match=r"alerts\.yaml has no list of groups"):
        _resources(_DEPLOYMENT, MonitoringFiles({"alerts.yaml": "rules: []\n"}, {}))


def test_every_deployment_has_the_alerts_and_dashboards_of_the_metrics() -> None:
    files = render("--tier", "startup")
    (rule,) = of_kind(files, "PrometheusRule").values()
    names = [alert["alert"] for group in rule["spec"]["groups"] for alert in group["rules"]]
    assert "PacelineNoReplicaReady" in names
    boards = yaml.safe_load_all(files["dashboards.yaml"])
    assert {name for board in boards for name in board["data"]} == {
        "paceline-serving.json",
        "paceline-speculation.json",
    }
