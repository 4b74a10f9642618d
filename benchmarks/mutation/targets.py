"""Which tests judge the mutants of which module.

By default those of the mirror: `src/paceline/a/b.py` and `tests/unit/a/test_b.py`. Listed here are
modules that are tested in another file, and those whose mirror alone would test less than it seems.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SOURCE = ROOT / "src" / "paceline"
_UNIT = "tests/unit"

TESTS: dict[str, tuple[str, ...]] = {
    "governor/values.py": ("governor/test_value_limits.py",),
    "governor/contract/samples.py": ("governor/contract/test_promises.py",),
    "governor/estimates/cell_regression.py": ("governor/estimates/test_cost.py",),
    "governor/policies/builtin.py": ("governor/policies/test_contract.py",),
    "governor/policies/fixed.py": ("governor/policies/test_simple_policies.py",),
    "governor/policies/schedule.py": ("governor/policies/test_simple_policies.py",),
    "governor/policies/threshold.py": ("governor/policies/test_simple_policies.py",),
}


def module_of(path: Path) -> str:
    """Return the import name of a source file."""
    return ".".join(path.resolve().relative_to(_SOURCE.parent).with_suffix("").parts)


def tests_of(path: Path) -> list[str]:
    """Return the test files of a source file, relative to the repository's root; ValueError if none
    exists."""
    relative = path.resolve().relative_to(_SOURCE)
    mirror = str(relative.with_name(f"test_{relative.name}"))
    found = [f"{_UNIT}/{test}" for test in TESTS.get(str(relative), (mirror,))]
    missing = [test for test in found if not (ROOT / test).is_file()]
    if missing:
        raise ValueError(f"{relative} has no tests at {missing}; name some in {__file__}")
    return found
