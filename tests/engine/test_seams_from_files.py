"""Reading vLLM's files says what importing them says.

Importing vLLM takes seconds and starts nothing.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from paceline.engine.seam import Seam, judge_seam
from paceline.engine.seam_record import load_records
from paceline.engine.seam_register import REGISTER
from paceline.engine.seam_source import SourceTree
from paceline.engine.seams import check_seam, find_installed

pytestmark = pytest.mark.engine

RECORDS = Path(__file__).parent / "data" / "seams"


@pytest.fixture(scope="module")
def tree() -> SourceTree:
    spec = importlib.util.find_spec("vllm")
    assert spec is not None
    assert spec.origin is not None
    return SourceTree(Path(spec.origin).parents[1])


@pytest.mark.parametrize("seam", REGISTER, ids=lambda seam: seam.name)
def test_files_and_import_show_the_same(tree: SourceTree, seam: Seam) -> None:
    """Names in their order, not only whether they suffice."""
    assert tree.find(seam) == find_installed(seam)


@pytest.mark.parametrize("seam", REGISTER, ids=lambda seam: seam.name)
def test_files_and_import_give_the_same_verdict_on_a_mismatch(tree: SourceTree, seam: Seam) -> None:
    """Another name expected; another place looked at."""
    other_name = replace(seam, expected=(*seam.expected, "mood"))
    assert judge_seam(other_name, tree.find(other_name)) == check_seam(other_name) != "ok"
    elsewhere = replace(seam, target=f"{seam.target}_gone")
    for verdict in (judge_seam(elsewhere, tree.find(elsewhere)), check_seam(elsewhere)):
        assert verdict.startswith(f"{elsewhere.target} is not there: ")


def test_the_record_of_the_installed_release_is_up_to_date(tree: SourceTree) -> None:
    """Same package, same places, same names."""
    [record] = [record for record in load_records(RECORDS) if record.version == tree.version()]
    for seam in REGISTER:
        assert set(tree.find(seam).names) == set(record.facts[seam.name].names)
