"""Reading vLLM's source files finds the same hooks as importing them.

Importing vLLM takes seconds and starts nothing.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest
from vllm_hooks.record import load_records
from vllm_hooks.source import SourceTree

from paceline.runtime.engine.compat.checks import check_hook, find_installed
from paceline.runtime.engine.compat.hook import VllmHook, judge_hook
from paceline.runtime.engine.compat.register import REGISTER

pytestmark = pytest.mark.engine

RECORDS = Path(__file__).parents[3] / "tools" / "vllm_hooks" / "records"


@pytest.fixture(scope="module")
def tree() -> SourceTree:
    spec = importlib.util.find_spec("vllm")
    assert spec is not None
    assert spec.origin is not None
    return SourceTree(Path(spec.origin).parents[1])


@pytest.mark.parametrize("hook", REGISTER, ids=lambda hook: hook.name)
def test_files_and_import_show_the_same(tree: SourceTree, hook: VllmHook) -> None:
    """The same names in the same order."""
    assert tree.find(hook) == find_installed(hook)


@pytest.mark.parametrize("hook", REGISTER, ids=lambda hook: hook.name)
def test_files_and_import_give_the_same_verdict_on_a_mismatch(
    tree: SourceTree, hook: VllmHook
) -> None:
    """For an unknown parameter, and for an unknown target."""
    other_name = replace(hook, expected=(*hook.expected, "mood"))
    assert judge_hook(other_name, tree.find(other_name)) == check_hook(other_name) != "ok"
    elsewhere = replace(hook, target=f"{hook.target}_gone")
    for verdict in (judge_hook(elsewhere, tree.find(elsewhere)), check_hook(elsewhere)):
        assert verdict.startswith(f"{elsewhere.target} is missing: ")


def test_the_record_of_the_installed_release_is_up_to_date(tree: SourceTree) -> None:
    """The record has the same names for every hook."""
    [record] = [record for record in load_records(RECORDS) if record.version == tree.version()]
    for hook in REGISTER:
        assert set(tree.find(hook).names) == set(record.facts[hook.name].names)
