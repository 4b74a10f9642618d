"""Rendered deployments are the committed ones, byte for byte."""

from __future__ import annotations

import difflib

import pytest

from unit.deploy import golden


@pytest.mark.parametrize("deployment", golden.DEPLOYMENTS)
def test_a_deployment_is_rendered_as_committed(deployment: str) -> None:
    committed, rendered = golden.committed_files(deployment), golden.golden_files(deployment)
    changes = [
        line
        for name in sorted(committed.keys() | rendered.keys())
        for line in difflib.unified_diff(
            committed.get(name, "").splitlines(),
            rendered.get(name, "").splitlines(),
            f"golden/{deployment}/{name}",
            "rendered",
            lineterm="",
            n=1,
        )
    ]
    # The lines are not all of it: a line feed at the end of a file is in none.
    assert committed == rendered, "\n".join(
        [f"if this is what you want, run: {golden.UPDATE}", *changes[:60]]
    )


def test_every_golden_folder_is_compared() -> None:
    assert {path.name for path in golden.FOLDER.iterdir()} == set(golden.DEPLOYMENTS)
