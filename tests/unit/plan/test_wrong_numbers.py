"""Numbers that are not finite, files that cannot be written, and the exit code of each failure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paceline.foundation.planning.sources.catalogue import load_catalogue
from paceline.foundation.planning.values import PlanError
from unit.plan.planning import LLAMA_70B, QWEN_7B, run_plan


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--requests-per-day", "nan"),
        ("--requests-per-day", "inf"),
        ("--peak-factor", "inf"),
        ("--usd-per-gpu-hour", "nan"),
        ("--slo-ttft-ms", "nan"),
        ("--acceptance", "nan"),
    ],
)
def test_a_number_that_is_not_finite_is_wrong_usage(option: str, value: str) -> None:
    result = run_plan(QWEN_7B, "--gpu", "h100", option, value)
    assert result.exit_code == 2
    assert option in result.stderr
    assert f"'{value}' is not a finite number" in result.stderr


@pytest.mark.parametrize(
    "changed",
    [
        {"bandwidth_gb_per_s": 0},
        {"memory_mib": -1},
        {"flops_fraction": 0},
        {"gpus_per_machine": 0},
        {"link": {"name": "NVLink", "gb_per_s": 0, "all_reduce_us": 9}},
        {"offers": [{"num_gpus": 0, "usd_per_hour": 1, "source": "x", "date": "2026-01-01"}]},
        {"bandwidth_gb_per_s": "fast"},
    ],
)
def test_a_catalogue_entry_has_finite_positive_figures(
    changed: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps({"gpus": [{"name": "h100", **changed}]}))
    with pytest.raises(PlanError, match=r"h100.*must be a finite number above 0"):
        load_catalogue(file)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_a_catalogue_has_numbers_of_json_only(number: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(f'{{"gpus": [{{"name": "h100", "usd_per_hour": {number}}}]}}')
    with pytest.raises(PlanError, match=r"mine\.json.*(not a JSON number|not finite|too large)"):
        load_catalogue(file)


def test_a_cpu_entry_has_finite_positive_figures(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    core = {"bandwidth_gb_per_s": 0, "tflops": {"bfloat16": 1}, "usd_per_hour": 1}
    file.write_text(json.dumps({"cpus": [{"name": "cpu", "per_core": core}]}))
    with pytest.raises(PlanError, match=r"bandwidth_gb_per_s of cpu is 0"):
        load_catalogue(file)


@pytest.mark.parametrize(
    "arguments",
    [(LLAMA_70B, "--slo-tpot-ms", "0.001"), (LLAMA_70B, "--reserve-gib", "500")],
)
def test_a_model_that_fits_on_no_machine_ends_with_1(arguments: tuple[str, ...]) -> None:
    result = run_plan(*arguments)
    assert result.exit_code == 1, result.output
    assert "fits on no machine of the catalogue" in result.stderr


def test_a_json_file_in_no_folder_is_refused_before_the_work() -> None:
    result = run_plan("nobody/unknown-7b", "--json", "/nonexist/x.json")
    assert result.exit_code == 2
    assert "--json is /nonexist/x.json, in a folder that does not exist" in result.stderr


def test_a_folder_below_a_file_is_refused_before_the_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = run_plan("nobody/unknown-7b", "--write", str(tmp_path / "file" / "folder"))
    assert result.exit_code == 2
    assert "--write is" in result.stderr
