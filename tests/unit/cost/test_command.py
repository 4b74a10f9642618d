"""`paceline cost` from files to figures, with every assumption printed."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from paceline.cli import main


def write_run(path: Path, **changes: Any) -> str:
    """A run of 100 s: 200,000 output and 300,000 prompt tokens in 1,000 requests."""
    summary = {
        "num_requests": 1000,
        "num_errors": 0,
        "window_s": 100.0,
        "prompt_tokens": 300_000,
        "output_tokens": 200_000,
        "output_tokens_per_s": 2000.0,
        "requests_per_s": 10.0,
    } | changes.pop("summary", {})
    config = {"model": "m", "workload": "mixed", "temperature": 0.0, "concurrency": 8}
    config |= changes.pop("config", {})
    document = {
        "schema_version": 1,
        "kind": "paceline bench run",
        "summary": summary,
        "config": config,
        "valid": True,
        "notes": [],
        "environment": {"date_utc": "2026-11-22T00:00:00+00:00"},
    } | changes
    path.write_text(json.dumps(document))
    return str(path)


def invoke(*words: str) -> Result:
    return CliRunner().invoke(main, ["cost", *words])


def test_prices_are_printed_with_their_assumptions(tmp_path: Path) -> None:
    """The example of test_arithmetic: $1 per 1M output tokens at $7.20 an hour."""
    result = invoke(write_run(tmp_path / "run.json"), "--usd-per-hour", "7.2")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[:4] == [
        "$1.00 per 1M output tokens",
        "$0.4 per 1M tokens, prompts included",
        "$0.2 per 1,000 requests",
        "Assumptions:",
    ]
    assert "1 machine at $7.2 per hour" in result.output
    assert "100 % of its measured rate" in result.output
    assert "run.json: model m, workload mixed, temperature 0.0, concurrency 8" in result.output
    assert "Warnings:" not in result.output


def test_the_document_has_the_promised_keys(tmp_path: Path) -> None:
    """60/s need 6 groups of 2 machines at $3.60: 6 * 7.2 * 730 = $31,536; the baseline 10."""
    slow = {"output_tokens_per_s": 1250.0, "requests_per_s": 6.25}
    file = tmp_path / "cost.json"
    result = invoke(
        *(write_run(tmp_path / "run.json"), "--usd-per-hour", "3.6", "--machines", "2"),
        *("--baseline", write_run(tmp_path / "base.json", summary=slow), "--json", str(file)),
        *("--requests-per-day", str(30 * 86_400), "--peak-factor", "2"),
    )
    assert result.exit_code == 0, result.output
    document = json.loads(file.read_text())
    assert document["schema_version"] == 1
    assert document["cost"]["usd_per_million_output_tokens"] == pytest.approx(1.0)
    assert document["monthly"]["usd_per_month"] == pytest.approx(31_536)
    assert document["baseline"]["cost"]["usd_per_million_output_tokens"] == pytest.approx(1.6)
    assert document["savings"]["fraction"] == pytest.approx(0.375)
    assert document["savings"]["usd_per_month"] == pytest.approx(21_024)
    assert len(document["assumptions"]) == 7
    assert document["warnings"] == []
    assert "$31,536 per month on 12 machines, which the peak uses to 100 %" in result.output
    assert "and the mean load to 50 %" in result.output
    assert "37.5 % less per output token than the baseline ($1.60 per 1M)" in result.output
    assert "$21,024 per month saved" in result.output


def test_with_a_load_its_bill_gives_the_price(tmp_path: Path) -> None:
    """The bill of $13,140 is for 3.04B output tokens; $1.67 holds at 60 % all day only."""
    file = tmp_path / "cost.json"
    rates = {"output_tokens_per_s": 1000.0, "requests_per_s": 5.0}
    result = invoke(
        *(write_run(tmp_path / "run.json", summary=rates), "--usd-per-hour", "3.6"),
        *("--utilization", "0.6", "--requests-per-day", "500000", "--peak-factor", "2.5"),
        *("--json", str(file)),
    )
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[:4] == [
        "$13,140 per month on 5 machines, which the peak uses to 58 % and the mean load to 23 %",
        "$4.32 per 1M output tokens of this load, $1.08 per 1M tokens, prompts included",
        "Of machines that always carry 60 % of their measured rate:",
        "$1.67 per 1M output tokens",
    ]
    assert "It carries at most 60 % of its measured rate, at the peak" in result.output
    assert "on average" not in result.output
    monthly = json.loads(file.read_text())["monthly"]
    assert monthly["usd_per_million_output_tokens"] == pytest.approx(4.32, abs=0.005)
    assert monthly["mean_utilization_fraction"] == pytest.approx(0.2315, abs=1e-4)


def test_a_price_of_the_catalogue_is_named_with_its_source(tmp_path: Path) -> None:
    file = tmp_path / "cost.json"
    result = invoke(write_run(tmp_path / "run.json"), "--gpu", "H100", "--json", str(file))
    assert result.exit_code == 0, result.output
    document = json.loads(file.read_text())
    price = document["inputs"]["usd_per_hour"]
    assert document["cost"]["usd_per_million_output_tokens"] == pytest.approx(price / 7.2)
    assert "The price is that of the catalogue: h100: " in result.output


def test_a_baseline_of_another_load_is_named(tmp_path: Path) -> None:
    base = write_run(tmp_path / "base.json", config={"concurrency": 1, "model": "other"})
    result = invoke(write_run(tmp_path / "run.json"), "--usd-per-hour", "1", "--baseline", base)
    assert "more than the server: the model is m, the baseline's is other" in result.output
    assert "more than the server: the concurrency is 8, the baseline's is 1" in result.output


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": {"concurrency": 1}}, "the concurrency is 8, the baseline's is 1"),
        ({"valid": False, "notes": ["sent late"]}, "baseline: the run is not valid: sent late"),
        ({"summary": {"num_errors": 3}}, "baseline: 3 of 1000 requests failed"),
        (
            {"summary": {"output_tokens_per_s": 1000.0}},
            "answers have 200 tokens, the baseline's have 100",
        ),
    ],
)
def test_what_speaks_against_a_saving_is_said_before_it(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    """Above it on the screen, where a reader begins."""
    base = write_run(tmp_path / "base.json", **changes)
    result = invoke(write_run(tmp_path / "run.json"), "--usd-per-hour", "1", "--baseline", base)
    lines = result.output.splitlines()
    assert lines[0] == "Warnings:"
    assert message in lines[1]
    assert "than the baseline" in "".join(lines[2:])


def test_failed_requests_and_invalid_runs_are_warned_of(tmp_path: Path) -> None:
    changes = {"valid": False, "notes": ["sent late"], "summary": {"num_errors": 3}}
    result = invoke(write_run(tmp_path / "run.json", **changes), "--usd-per-hour", "1")
    assert "- the run is not valid: sent late" in result.output
    assert "- 3 of 1000 requests failed" in result.output


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "paceline plan"}, "its kind is 'paceline plan'"),
        ({"schema_version": 2}, "this release reads 1"),
        ({"summary": {"output_tokens_per_s": None}}, "output tokens/s are unknown"),
        ({"summary": {"window_s": None}}, "it lacks a part"),
        ({"summary": {"window_s": 0}}, "summary.window_s is 0; it must be a finite number above"),
        ({"summary": {"window_s": math.nan}}, "summary.window_s is nan"),
        ({"summary": {"output_tokens_per_s": -5.0}}, "summary.output_tokens_per_s is -5.0"),
        ({"summary": {"output_tokens_per_s": "fast"}}, "summary.output_tokens_per_s is 'fast'"),
        ({"summary": {"requests_per_s": math.inf}}, "summary.requests_per_s is inf"),
        ({"summary": {"requests_per_s": 10**400}}, "summary.requests_per_s is 1000"),
        ({"summary": {"requests_per_s": True}}, "summary.requests_per_s is True"),
        ({"summary": {"prompt_tokens": 10**400}}, "its rates cannot be used"),
        ({"summary": {"prompt_tokens": -1}}, "summary.prompt_tokens is -1; it must be a whole"),
        ({"summary": {"num_errors": "x"}}, "summary.num_errors is 'x'; it must be a whole number"),
        ({"summary": {"num_errors": 1, "num_requests": None}}, "summary.num_requests is None"),
        ({"notes": None, "valid": False}, "its notes are None; they must be a list"),
        ({"environment": None}, "environment is None; it must be an object"),
    ],
)
def test_files_without_a_usable_run_are_refused(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    result = invoke(write_run(tmp_path / "run.json", **changes), "--usd-per-hour", "1")
    assert result.exit_code == 1
    assert message in result.output


@pytest.mark.parametrize("part", ["summary", "config"])
@pytest.mark.parametrize("value", [None, [], "x", 1])
def test_a_part_that_is_no_object_is_refused(part: str, value: object, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    write_run(path)
    path.write_text(json.dumps(json.loads(path.read_text()) | {part: value}))
    result = invoke(str(path), "--usd-per-hour", "1")
    assert result.exit_code == 1
    assert f"{part} is {value!r}; it must be an object" in result.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "either --usd-per-hour or --gpu"),
        (["--usd-per-hour", "1", "--gpu", "h100"], "either --usd-per-hour or --gpu"),
        (["--gpu", "h99"], "the catalogue has prices of b200"),
        (["--usd-per-hour", "0"], "not in the range"),
        (["--usd-per-hour", "nan"], "'nan' is not a finite number"),
        (["--usd-per-hour", "inf"], "'inf' is not a finite number"),
        (["--usd-per-hour", "1", "--utilization", "nan"], "'nan' is not a finite number"),
        (["--usd-per-hour", "1", "--utilization", "2"], "not in the range"),
        (["--usd-per-hour", "1", "--peak-factor", "2"], "needs --requests-per-day"),
        (["--usd-per-hour", "1", "--baseline-machines", "2"], "needs --baseline"),
        (["--usd-per-hour", "1", "--json", "absent/c.json"], "folder that does not exist"),
    ],
)
def test_wrong_usage_exits_with_2(words: list[str], message: str, tmp_path: Path) -> None:
    result = invoke(write_run(tmp_path / "run.json"), *words)
    assert result.exit_code == 2
    assert message in result.output
