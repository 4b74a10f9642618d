"""Rendered deployments as committed files: a change of a manifest shows in the diff of its commit.

usage: PYTHONPATH=tests python -m unit.deploy.golden

writes tests/unit/deploy/golden/ again. Folders of the three tiers are complete; the others have the
files that the tiers lack. Alert rules and dashboards are large, and their sources have tests: the
folder of one tier has their digests.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path

from unit.deploy.rendering import TIERS, render

FOLDER = Path(__file__).with_name("golden")
UPDATE = "PYTHONPATH=tests python -m unit.deploy.golden"
DIGESTS = "digests.json"

_LARGE = ("alert-rules.yaml", "dashboards.yaml")
_ENGINES = ("engine-*.yaml", "network-policies.yaml", "settings.yaml", "README.md")
_PARTS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    **{tier: (("--tier", tier), ("*",)) for tier in TIERS},
    "several-nodes": (
        (
            "Qwen/Qwen3-32B", "--tier", "mid-market", "--gpu", "l40s",
            "--tensor-parallel", "2", "--nodes-per-replica", "2",
        ),
        _ENGINES,
    ),
    "other-engines": (
        ("--tier", "mid-market", "--pool", "trtllm", "--pool", "triton"),
        _ENGINES,
    ),
}  # fmt: skip
"""The options of each folder, and the patterns of the files in it."""

DEPLOYMENTS = tuple(_PARTS)
_WITH_DIGESTS = "mid-market"


def golden_files(deployment: str) -> dict[str, str]:
    """What a folder must contain: the rendered files, and the digests of large ones."""
    options, patterns = _PARTS[deployment]
    rendered = render(*options)
    files = {
        name: text
        for name, text in rendered.items()
        if name not in _LARGE and any(fnmatch(name, pattern) for pattern in patterns)
    }
    if deployment == _WITH_DIGESTS:
        digests = {name: hashlib.sha256(rendered[name].encode()).hexdigest() for name in _LARGE}
        files[DIGESTS] = json.dumps(digests, indent=1) + "\n"
    return files


def committed_files(deployment: str) -> dict[str, str]:
    """What a folder contains."""
    root = FOLDER / deployment
    return {
        str(path.relative_to(root)): path.read_text(encoding="utf-8")
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def main() -> None:
    """Write all folders again."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    for deployment in DEPLOYMENTS:
        for name, text in golden_files(deployment).items():
            path = FOLDER / deployment / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
