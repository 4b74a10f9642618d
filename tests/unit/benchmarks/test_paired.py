"""benchmarks/paired.py compares arms within each repeat and stops every server."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[3]
SIMULATED = Path(__file__).parents[1] / "bench" / "simulated.py"


@pytest.fixture(scope="module")
def paired() -> ModuleType:
    spec = importlib.util.spec_from_file_location("paired", ROOT / "benchmarks" / "paired.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["paired"] = module
    spec.loader.exec_module(module)
    return module


def run_of(repeat: int, arm: str, rate: float, tpot_ms: float | None) -> dict[str, Any]:
    summary = {
        "output_tokens_per_s": rate,
        "tpot_ms": {"p50": tpot_ms},
        "ttft_ms": {"p50": 1.0},
    }
    return {"repeat": repeat, "load": "l", "arm": arm, "summary": summary}


def test_ratios_pair_the_runs_of_one_repeat(paired: ModuleType) -> None:
    """20/10, 30/20, 90/30 = 2, 1.5, 3; unpaired, the medians would have given 30/20 = 1.5."""
    rates = {"a": (10.0, 20.0, 30.0), "b": (20.0, 30.0, 90.0)}
    runs = [run_of(i, arm, rates[arm][i], None) for i in range(3) for arm in "ab"]
    comparisons = paired.compare_arms(runs, "a")
    assert [c["figure"] for c in comparisons] == ["output_tokens_per_s", "ttft_p50"]
    assert comparisons[0]["ratios"] == [2.0, 1.5, 3.0]
    assert (comparisons[0]["median"], comparisons[0]["min"], comparisons[0]["max"]) == (2, 1.5, 3)


def test_a_plan_runs_interleaved_compares_the_arms_and_ends_its_servers(
    paired: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second server waits 60 ms before each chunk, the first not at all."""
    monkeypatch.setattr("benchmarks.servers.IDLE_WATCH_S", 0.2)
    prompts = tmp_path / "p.jsonl"
    prompts.write_text(json.dumps({"prompt": json.dumps({"tokens": 3})}))
    command = [sys.executable, str(SIMULATED), "{port}"]
    load = {"name": "l", "prompts_file": str(prompts), "num_requests": 2}
    plan = {
        "repeats": 2,
        "servers": {
            "fast": {"command": [*command, "0", '{"braces": "stay"}']},
            "slow": {"command": [*command, "0.06"]},
        },
        "arms": [{"name": "a", "server": "fast"}, {"name": "b", "server": "slow"}],
        "loads": [load],
    }
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    saved: list[int] = []
    document = paired.run_plan(plan, tmp_path, lambda document: saved.append(len(document["runs"])))
    assert saved == [2, 4]  # after each repeat: a crash loses one at most
    assert [(r["repeat"], r["arm"]) for r in document["runs"]] == [
        (0, "a"),
        (0, "b"),
        (1, "a"),
        (1, "b"),
    ]
    rates = [r["summary"]["output_tokens_per_s"] for r in document["runs"]]
    (rate, *_) = document["comparisons"]
    assert rate["ratios"] == pytest.approx([rates[1] / rates[0], rates[3] / rates[2]])
    assert all(r["summary"]["ttft_ms"]["p50"] > 59 for r in document["runs"][1::2])
    assert set(document["idle_cores"]) == {"fast", "slow"}
    json.dumps(document)
    after = {child.pid for child in psutil.Process().children(recursive=True)}
    assert after <= before


def test_a_server_that_does_not_start_is_named(paired: ModuleType, tmp_path: Path) -> None:
    plan = {"servers": {"broken": {"command": ["false"]}}, "arms": [], "loads": []}
    with pytest.raises(RuntimeError, match="server broken exited with 1"):
        paired.run_plan(plan, tmp_path, print)
