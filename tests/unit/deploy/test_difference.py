"""`paceline deploy diff` names what changes and what it costs."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from paceline.operations.deploy.difference import compare, resources_of
from unit.deploy.rendering import run_deploy


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(_render(tmp_path_factory.mktemp("rendered"), "--tier", "mid-market"))


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


def test_byte_order_marks_are_no_difference(rendered: Path, tmp_path: Path) -> None:
    edited = tmp_path / "edited"
    shutil.copytree(rendered, edited)
    for file in [*edited.rglob("*.json"), *edited.rglob("*.yaml")]:
        text = file.read_text(encoding="utf-8")
        file.write_text(text, encoding="utf-8-sig", newline="\r\n")
    result = run_deploy("diff", str(rendered), str(edited))
    assert result.exit_code == 0, result.output
    assert "changed" not in result.output.lower().replace("unchanged", "")


def test_a_changed_setting_of_triton_is_named(tmp_path: Path) -> None:
    options = ("--tier", "mid-market", "--pool", "triton")
    old = _render(tmp_path / "old", *options)
    new = _render(tmp_path / "new", *options, "--max-model-len", "2048")
    assert "data.model.json.max_model_len: 8192 -> 2048" in run_deploy("diff", old, new).output


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


_BROKEN = {
    "no JSON": ("deployment.json", b"{", "deployment.json is not valid JSON"),
    "a list": ("deployment.json", b"[]", "deployment.json is no summary"),
    "no figures": ("deployment.json", b'{"schema_version": 1}', "deployment.json is no summary"),
    "a later one": ("deployment.json", b'{"schema_version": 2}', "version 2; this release reads 1"),
    "no YAML": ("engine-main.yaml", b"kind: [", "engine-main.yaml is not valid YAML"),
    "no text": ("engine-main.yaml", b"\xff", "engine-main.yaml is not UTF-8"),
    "no resource": ("engine-main.yaml", b"- a\n", "engine-main.yaml has a document"),
    "no name": (
        "engine-main.yaml",
        b"kind: Service\n",
        "engine-main.yaml has a document",
    ),
    "no list": ("kustomization.yaml", b"resources: a\n", "kustomization.yaml has no list"),
    "no such file": ("kustomization.yaml", b"resources: [gone.yaml]\n", "gone.yaml, which is not"),
}


@pytest.mark.parametrize("case", _BROKEN)
def test_a_broken_file_is_named_with_its_folder(case: str, tmp_path: Path, rendered: Path) -> None:
    name, content, message = _BROKEN[case]
    broken = tmp_path / "broken"
    shutil.copytree(rendered, broken)
    (broken / name).write_bytes(content)
    for folders in ((rendered, broken), (broken, rendered)):
        result = run_deploy("diff", *map(str, folders))
        assert result.exit_code == 2, result.output
        assert isinstance(result.exception, SystemExit)
        text = " ".join(result.output.split())
        assert f"{broken}: " in text
        assert message in text


def test_settings_that_are_no_yaml_are_compared_as_text() -> None:
    old, new = (
        {"ConfigMap/s": {"data": {"paceline.yaml": text}}} for text in ("server: [", "server: {")
    )
    (change,) = compare(old, new)
    assert change.fields == ("data.paceline.yaml: server: [ -> server: {",)


@pytest.mark.parametrize("file", ["/proc/x", "/nowhere/x.json"])
def test_differences_that_cannot_be_written_are_an_error(file: str, rendered: Path) -> None:
    result = run_deploy("diff", str(rendered), str(rendered), "--json", file)
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code in (1, 2)
    assert file in result.output
