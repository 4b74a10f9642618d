"""The registry finds workloads by their files and refuses files that declare none."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from paceline.foundation.workloads import WorkloadError, load_workload, workload_names
from paceline.foundation.workloads.registry import find_workloads

DECLARATION = """
from paceline.foundation.workloads import HeldoutWorkload
WORKLOAD = HeldoutWorkload(name="{name}", description="a made-up workload", tasks=("code",))
"""


def package_of(folder: Path, monkeypatch: pytest.MonkeyPatch, **files: str) -> ModuleType:
    """An importable package with these modules."""
    package = folder / "made_up_workloads"
    package.mkdir()
    (package / "__init__.py").touch()
    for name, text in files.items():
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(folder)
    for name in [name for name in sys.modules if name.startswith(package.name)]:
        monkeypatch.delitem(sys.modules, name)
    return importlib.import_module(package.name)


def test_names_are_sorted_and_include_those_that_commands_and_plans_use() -> None:
    names = workload_names()
    assert list(names) == sorted(names)
    assert {"mixed", "predictable", "hard", "code"} <= set(names)


def test_an_unknown_name_lists_the_allowed_ones() -> None:
    with pytest.raises(WorkloadError, match="'poems'; it must be one of chat, code, complete"):
        load_workload("poems")


def test_a_new_file_is_a_new_workload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = package_of(tmp_path, monkeypatch, ours=DECLARATION.format(name="ours"))
    assert list(find_workloads(package)) == ["ours"]


def test_a_file_without_a_workload_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = package_of(tmp_path, monkeypatch, ours="")
    with pytest.raises(WorkloadError, match="must assign its workload to WORKLOAD"):
        find_workloads(package)


def test_a_workload_with_another_name_than_its_file_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = package_of(tmp_path, monkeypatch, ours=DECLARATION.format(name="theirs"))
    with pytest.raises(WorkloadError, match="must be that of the file, 'ours'"):
        find_workloads(package)
