"""Which changes are no mutants."""

from __future__ import annotations

import pytest

from benchmarks.mutation.mutants import is_checked_by_mypy


@pytest.mark.parametrize(
    ("change", "is_checked"),
    [
        ("- @dataclass(frozen=True, slots=True)\n+ @dataclass(frozen=False, slots=True)", True),
        ("- @dataclass(frozen=True, slots=True)\n+ @dataclass(frozen=True, slots=False)", True),
        ("- @dataclass(frozen=True, eq=False)\n+ @dataclass(frozen=True, eq=True)", False),
        ("- make(frozen=True)\n+ make(frozen=False)", False),
        ("- a = 1\n- b = 2\n+ pass", False),
    ],
)
def test_flags_that_mypy_checks_are_left_alone(change: str, is_checked: bool) -> None:
    assert is_checked_by_mypy(change) is is_checked
