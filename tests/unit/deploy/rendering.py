"""Render a deployment as its users do, and read the result."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result

from paceline.cli import main

TIERS = ("startup", "mid-market", "enterprise")


def run_deploy(*arguments: str) -> Result:
    """The result of the command with these arguments."""
    return CliRunner().invoke(main, ["deploy", *arguments])


def render(*arguments: str) -> dict[str, str]:
    """The files of `paceline deploy render`, by path; it must succeed."""
    with tempfile.TemporaryDirectory() as folder:
        result = run_deploy("render", *arguments, "--out", folder)
        assert result.exit_code == 0, result.output
        root = Path(folder)
        return {
            str(path.relative_to(root)): path.read_text()
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }


def documents(files: dict[str, str]) -> list[dict[str, Any]]:
    """All resources, the alternatives included, without what is no resource.

    With libyaml's parser: the other one takes eight times as long, 35 s of these tests in all.
    """
    found: list[dict[str, Any]] = []
    for name, text in files.items():
        if name.endswith(".yaml"):
            entries = yaml.load_all(text, Loader=yaml.CSafeLoader)
            found += [entry for entry in entries if "kind" in entry]
    return [entry for entry in found if entry["kind"] != "Kustomization"]


def of_kind(files: dict[str, str], kind: str) -> dict[str, dict[str, Any]]:
    """The resources of a kind, by name."""
    return {entry["metadata"]["name"]: entry for entry in documents(files) if entry["kind"] == kind}


def pods(files: dict[str, str]) -> dict[str, dict[str, Any]]:
    """The specifications of all pods that serve requests, by the name of their workload."""
    found = {
        name: entry["spec"]["template"]["spec"]
        for name, entry in of_kind(files, "Deployment").items()
    }
    for name, entry in of_kind(files, "LeaderWorkerSet").items():
        found[name] = entry["spec"]["leaderWorkerTemplate"]["leaderTemplate"]["spec"]
    return found
