"""`paceline deploy diff` names what changes and what it costs."""

from __future__ import annotations

import json
from pathlib import Path

from paceline.deploy.difference import compare, resources_of
from unit.deploy.rendering import run_deploy


def _render(folder: Path, *arguments: str) -> str:
    result = run_deploy("render", *arguments, "--out", str(folder))
    assert result.exit_code == 0, result.output
    return str(folder)


def test_one_more_replica_changes_the_scaling_and_the_rent(tmp_path: Path) -> None:
    sizes = ("Qwen/Qwen3-8B-FP8", "--tier", "mid-market", "--gpu", "l4")
    old = _render(tmp_path / "old", *sizes, "--replicas", "2")
    new = _render(tmp_path / "new", *sizes, "--replicas", "3")
    result = run_deploy("diff", old, new)
    assert result.exit_code == 0
    assert "2 l4 -> 3 l4" in result.output
    # AWS' g6.xlarge costs $0.8048 an hour, a month has 730 hours.
    assert "$1,175 -> $1,763 (+$588)" in result.output
    assert "spec.minReplicaCount: 2 -> 3" in result.output
    assert "Deployment/gateway" not in result.output


def test_a_larger_tier_adds_resources_and_changes_the_settings(tmp_path: Path) -> None:
    old = _render(tmp_path / "old", "--tier", "startup")
    new = _render(tmp_path / "new", "--tier", "mid-market")
    file = tmp_path / "diff.json"
    result = run_deploy("diff", old, new, "--json", str(file))
    assert result.exit_code == 0
    document = json.loads(file.read_text())
    kinds = {change["resource"]: change["kind"] for change in document["changes"]}
    assert kinds["ScaledObject/engine-main"] == "added"
    assert kinds["Deployment/gateway"] == "changed"
    fields = next(
        change["fields"]
        for change in document["changes"]
        if change["resource"] == "ConfigMap/paceline-settings"
    )
    assert "data.paceline.yaml.engine.replicas: 1 -> 0" in fields
    assert document["old"]["tier"] == "startup"


def test_a_smaller_deployment_removes_resources() -> None:
    changes = compare({"Service/a": {"spec": 1}}, {})
    assert [(change.kind, change.resource) for change in changes] == [("removed", "Service/a")]


def test_equal_deployments_have_no_changes(tmp_path: Path) -> None:
    folder = _render(tmp_path / "same", "--tier", "startup")
    assert "no resource changes" in run_deploy("diff", folder, folder).output


def test_only_applied_files_are_compared() -> None:
    files = {
        "kustomization.yaml": "resources: [a.yaml]\n",
        "a.yaml": "kind: Service\nmetadata: {name: a}\n",
        "alternatives/b.yaml": "kind: Service\nmetadata: {name: b}\n",
    }
    assert list(resources_of(files)) == ["Service/a"]


def test_a_folder_without_a_summary_is_refused(tmp_path: Path) -> None:
    result = run_deploy("diff", str(tmp_path), str(tmp_path))
    assert result.exit_code == 2
    assert "deployment.json" in result.output
