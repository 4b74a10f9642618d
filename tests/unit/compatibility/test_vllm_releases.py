"""The releases that the start-up checks know are those that were read and are installed."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from paceline.compatibility.vllm_releases import FITTING, TESTED, judge_release

ROOT = Path(__file__).parents[3]


def test_the_tested_release_is_the_one_that_is_installed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    pins = [*extras["cpu"], *extras["cuda"]]
    assert {".".join(pin.partition("==")[2].split(".")[:2]) for pin in pins} == set(TESTED)


def test_every_known_release_has_a_record_of_its_source() -> None:
    records = (ROOT / "tools" / "vllm_hooks" / "records").glob("*.json")
    read = {json.loads(record.read_text(encoding="utf-8"))["vllm"] for record in records}
    assert {*TESTED, *FITTING} <= {version.rpartition(".")[0] for version in read}


@pytest.mark.parametrize(
    ("release", "known"),
    [("0.32.4", "tested"), ("0.33.0", "fitting"), ("0.3.2", "unknown"), ("0.26.0", "unknown")],
)
def test_a_release_is_known_by_its_first_two_numbers(release: str, known: str) -> None:
    assert judge_release(release) == known
