"""A plan for this machine is made with what an engine measured on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paceline.demo import draft_path, target_path
from paceline.foundation.capacity.cost_table import CostTable
from paceline.foundation.recording.stored_costs import StoredCosts, cpu_name, document_of
from unit.plan.planning import plan_json, run_plan

TABLE = CostTable(
    sizes=(1, 4),
    lengths=(0, 4),
    verify_s=((0.020, 0.024), (0.050, 0.090)),
    draft_s=((0.0, 0.004), (0.0, 0.008)),
)
PLAN = ("--gpu", "cpu", "--draft", str(draft_path()), "--acceptance", "0.8", "--dtype", "float32",
        "--draft-length-max", "4", "--max-num-seqs", "4")  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "costs"
    folder.mkdir()
    monkeypatch.setenv("PACELINE_COSTS_FOLDER", str(folder))
    return folder


def store(folder: Path, table: CostTable = TABLE, **changes: Any) -> None:
    """A table of the bundled pair on this machine."""
    models = {
        name: {"model": str(path), "dtype": "torch.float32", "quantization": None}
        for name, path in (("target", target_path()), ("draft", draft_path()))
    }
    identity = {"device": cpu_name(), "method": "draft_model", "tensor_parallel_size": 1} | models
    document = document_of(identity | changes, StoredCosts(table, "2026-11-29"))
    (folder / f"{len(list(folder.iterdir()))}.json").write_text(json.dumps(document))


def test_the_steps_are_those_of_the_table(folder: Path, tmp_path: Path) -> None:
    store(folder)
    plan = plan_json(tmp_path, str(target_path()), *PLAN)
    assert plan["hardware"]["step_costs"] == {
        "measured_on": "2026-11-29", "max_requests": 4, "max_draft_length": 4,
    }  # fmt: skip
    row = next(row for row in plan["performance"] if row["num_requests"] == 1)
    # length 4 gives 3.36 tokens in 28 ms, length 0 one in 20 ms
    assert row["draft_length"] == 4
    assert row["step_ms"] == pytest.approx(28.0)
    assert any("measured on 2026-11-29" in text for text in plan["assumptions"])


def test_the_best_length_follows_the_measured_costs(folder: Path, tmp_path: Path) -> None:
    """Drafts that are seldom accepted, at 4 requests: 1.11 tokens in 98 ms against one in 50 ms."""
    store(folder)
    arguments = [*PLAN, "--concurrency", "4"]
    arguments[arguments.index("0.8")] = "0.1"
    plan = plan_json(tmp_path, str(target_path()), *arguments)
    row = next(row for row in plan["performance"] if row["num_requests"] == 4)
    assert row["draft_length"] == 0
    assert row["step_ms"] == pytest.approx(50.0)


def test_a_batch_that_is_slower_than_a_smaller_one_is_not_planned(
    folder: Path, tmp_path: Path
) -> None:
    """Two requests in 25 ms are 80 tokens/s, four in 200 ms are 20."""
    table = CostTable(
        sizes=(1, 2, 4),
        lengths=(0, 4),
        verify_s=((0.020, 0.024), (0.025, 0.090), (0.200, 0.300)),
        draft_s=((0.0, 0.004), (0.0, 0.008), (0.0, 0.008)),
    )
    store(folder, table=table)
    arguments = [*PLAN]
    arguments[arguments.index("0.8")] = "0.05"
    plan = plan_json(tmp_path, str(target_path()), *arguments, "--prompt-tokens", "10")
    rates = {row["num_requests"]: row["output_tokens_per_s"] for row in plan["performance"]}
    assert plan["operating_point"]["num_requests"] == 2
    assert max(rates, key=lambda size: rates[size]) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"device": "another processor"},
        {"target": {"model": "another/model", "dtype": "torch.float32", "quantization": None}},
        {"target": {"model": str(target_path()), "dtype": "torch.bfloat16", "quantization": None}},
        {"draft": None, "method": "ngram"},
        {"tensor_parallel_size": 2},
    ],
    ids=["machine", "model", "number format", "drafter", "layout"],
)
def test_the_table_of_another_engine_is_not_used(
    changes: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    store(folder, **changes)
    plan = plan_json(tmp_path, str(target_path()), *PLAN)
    assert plan["hardware"]["step_costs"] is None
    assert plan["hardware"]["calibration"] is None


def test_an_engine_without_drafts_is_planned_with_the_steps_at_length_0(
    folder: Path, tmp_path: Path
) -> None:
    store(folder)
    plan = plan_json(
        tmp_path, str(target_path()), "--gpu", "cpu", "--draft", "none", "--dtype", "float32"
    )
    row = next(row for row in plan["performance"] if row["num_requests"] == 1)
    assert row["step_ms"] == pytest.approx(20.0)


def test_a_file_that_is_no_table_is_passed_over(folder: Path) -> None:
    (folder / "broken.json").write_text("{")
    store(folder)
    result = run_plan(str(target_path()), *PLAN)
    assert result.exit_code == 0
    assert "measured on 2026-11-29" in result.output
