"""The GPU experiments in their dry runs, and how they compare arms."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu import gateway_streams, governor_without_weights
from benchmarks.gpu.comparison import compare
from benchmarks.gpu.engine_kinds import ENGINE_KINDS, EngineKind
from benchmarks.gpu.governor_without_weights import run_arms
from benchmarks.gpu.phases import Turn, make_phases
from benchmarks.gpu.shapes import SHAPES, write_model
from benchmarks.gpu.simulated_runner import SimulatedRunner
from benchmarks.results_file import read_result


def test_the_governor_without_weights(capsys: pytest.CaptureFixture[str]) -> None:
    """All arms of all engines in all phases, in the policy simulator; every policy is compared."""
    governor_without_weights.main(["--dry-run"])
    rows = [line for line in capsys.readouterr().out.splitlines() if "n = 2" in line]
    arms = ("goodput", "sglang-ema", "adaptive", "goodput+adaptive", "table")
    reached = {arm: [_median(row, arm) for row in rows if f" {arm} " in row] for arm in arms}
    assert {arm: len(found) for arm, found in reached.items()} == dict.fromkeys(arms, 4)
    assert {row.split()[0] for row in rows} == {"4", "64"}
    assert min(reached["goodput"]) > 0.85  # within 60 steps of each phase
    assert min(reached["goodput+adaptive"]) > 0.85
    assert min(reached["adaptive"]) < 0.65  # it never cuts the cost of drafting


def _median(row: str, arm: str) -> float:
    return float(row.split(f" {arm} ")[1].split()[0])


def test_tokens_that_adaptive_verification_leaves_out_are_not_counted() -> None:
    """At acceptance 0.1 one token at most of each draft is verified, so a tenth is accepted."""
    [phase] = make_phases((64,), (128,), (0.1,))
    turn = SimulatedRunner(ENGINE_KINDS["adaptive"]).run("adaptive", phase, 60, 0)
    assert set(turn.lengths) == {7}
    assert 0 < turn.verified_tokens <= 60 * 64
    assert turn.accepted_tokens / turn.verified_tokens == pytest.approx(0.1, abs=0.02)


def test_the_best_length_is_chosen_on_the_other_repeats() -> None:
    """K=1 is best in the first repeat, K=0 in the second, so each is scored against the other."""
    rates = {("K=0", 0): 10, ("K=1", 0): 20, ("goodput", 0): 20}
    rates |= {("K=0", 1): 40, ("K=1", 1): 30, ("goodput", 1): 30}
    [phase] = make_phases((4,), (128,), (0.9,))
    turns = [Turn(arm, phase.name, repeat, rate, 1.0, ()) for (arm, repeat), rate in rates.items()]
    row = compare(turns, [phase])[0]
    assert (row["arm"], row["lowest"], row["highest"], row["n"]) == ("goodput", 1.0, 2.0, 2)


def test_the_table_has_one_length_for_each_number_of_requests() -> None:
    """K=1 gains 2 in one phase of four requests and loses 0.8 in the other, so the table has 1."""
    phases = make_phases((4, 64), (128,), (0.9, 0.1))
    rates = {"K=0": (10, 10, 10, 10), "K=1": (20, 8, 5, 5)}
    turns = [
        Turn(arm, phase.name, 0, rate, 1.0, ())
        for arm, found in rates.items()
        for phase, rate in zip(phases, found, strict=True)
    ]
    rows = compare(turns, phases)
    assert [row["arm"] for row in rows] == ["table"] * 4
    assert [row["median"] for row in rows] == [1.0, 0.8, 1.0, 1.0]


def test_a_result_is_completed_by_the_engines_that_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run ends in its third engine; the second one runs that engine and the last."""
    ran: list[str] = []

    def run_engine(kind: EngineKind, options: argparse.Namespace) -> list[dict[str, Any]]:
        if len(ran) == 2:
            ran.clear()
            raise KeyboardInterrupt
        ran.append(kind.name)
        runner, phases = SimulatedRunner(kind), make_phases((4,), (256, 2048), (0.9, 0.6, 0.2))
        turns = run_arms(runner, kind, phases, num_steps=2, repeats=1, seed=0)
        return [asdict(turn) for turn in turns]

    monkeypatch.setattr(governor_without_weights, "_run_in_process", run_engine)
    arguments = ["--batches", "4", "--steps", "2", "--repeats", "1", "--allow-dirty"]
    arguments += ["--results", str(tmp_path)]
    with pytest.raises(KeyboardInterrupt):
        governor_without_weights.main(arguments)
    [file] = tmp_path.iterdir()
    assert list(read_result(file)["engines"]) == ["none", "governed"]
    ran.clear()
    governor_without_weights.main([*arguments, "--resume", str(file)])
    assert ran == ["adaptive", "governed-adaptive"]
    assert {row["arm"] for row in read_result(file)["ratios"]} >= {"adaptive", "goodput+adaptive"}


@pytest.mark.parametrize("draft", [Path("draft"), None])
def test_every_engine_has_its_own_arguments_of_vllm(draft: Path | None) -> None:
    """`adaptive` is stock vLLM."""
    arguments = {
        name: kind.vllm_arguments(Path("target"), draft, is_async=True)
        for name, kind in ENGINE_KINDS.items()
    }
    assert "speculative_config" not in arguments["none"]
    assert [name for name, found in arguments.items() if "scheduler_cls" not in found] == [
        "adaptive"
    ]
    speculative = {n: found.get("speculative_config", {}) for n, found in arguments.items()}
    assert [n for n, found in speculative.items() if "enable_adaptive_verification" in found] == [
        "adaptive",
        "governed-adaptive",
    ]
    for name in ("governed", "adaptive", "governed-adaptive"):
        assert speculative[name]["num_speculative_tokens"] == 7
        assert speculative[name]["method"] == ("mtp" if draft is None else "draft_model")


def test_the_gateway_in_front_of_a_server(capsys: pytest.CaptureFixture[str]) -> None:
    """The plan runs, with mock servers."""
    gateway_streams.main(["--dry-run"])
    assert "8 streams: gateway, tpot_p50: " in capsys.readouterr().out


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_is_a_model_folder_without_weights(tmp_path: Path, name: str) -> None:
    config = json.loads((write_model(tmp_path / name, SHAPES[name]) / "config.json").read_text())
    assert config["hidden_size"] % config["num_attention_heads"] == 0
    assert config["num_attention_heads"] % config["num_key_value_heads"] == 0
