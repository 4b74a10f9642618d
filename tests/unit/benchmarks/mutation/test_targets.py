"""Which tests judge which module."""

from __future__ import annotations

import pytest

from benchmarks.mutation.targets import NOT_JUDGED, ROOT, TESTS, is_judged, judges_of, module_of

RUNTIME = ROOT / "src" / "paceline" / "runtime"


def test_a_module_is_judged_by_its_mirror() -> None:
    path = RUNTIME / "governor" / "policies" / "latency.py"
    assert module_of(path) == "paceline.runtime.governor.policies.latency"
    assert judges_of(path) == ["tests/unit/governor/policies/test_latency.py"]


def test_every_exception_is_a_module_with_tests_or_a_reason() -> None:
    for name in (*TESTS, *NOT_JUDGED):
        path = RUNTIME / name
        assert path.is_file()
        assert not is_judged(path) or judges_of(path)


def test_a_module_without_tests_is_refused() -> None:
    with pytest.raises(ValueError, match=r"version\.py has no tests at .*test_version\.py"):
        judges_of(RUNTIME / "version.py")
