"""Which tests judge which module."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.mutation import targets
from benchmarks.mutation.targets import ROOT, TESTS, is_judged, judges_of, module_of

GOVERNOR = ROOT / "src" / "paceline" / "governor"
FILES = [
    path
    for folder in (GOVERNOR, ROOT / "src" / "paceline" / "engine" / "scheduler")
    for path in sorted(folder.rglob("*.py"))
    if path.name != "__init__.py"
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_module_has_tests_or_a_reason(path: Path) -> None:
    if is_judged(path):
        assert judges_of(path)


def test_a_module_is_judged_by_its_mirror() -> None:
    path = GOVERNOR / "prefill_pacing.py"
    assert module_of(path) == "paceline.governor.prefill_pacing"
    assert judges_of(path) == ["tests/unit/governor/test_prefill_pacing.py"]


def test_every_exception_is_a_module() -> None:
    for name in (*TESTS, *targets.NOT_JUDGED):
        assert (ROOT / "src" / "paceline" / name).is_file()


def test_a_module_without_tests_is_refused() -> None:
    with pytest.raises(ValueError, match=r"version\.py has no tests at .*test_version\.py"):
        judges_of(ROOT / "src" / "paceline" / "version.py")
