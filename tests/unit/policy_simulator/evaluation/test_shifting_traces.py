"""Shifting-acceptance traces in the policy simulator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from paceline.foundation.shifting_trace import find_trace
from paceline.foundation.shifting_trace.reading import parse_trace
from paceline.testing.policy_simulator.command import main
from paceline.testing.policy_simulator.engine.simulated_engine import SimulatedEngine
from paceline.testing.policy_simulator.evaluation.arms import HeldLength, run_trace
from paceline.testing.policy_simulator.evaluation.shifting_traces import phases_of
from paceline.testing.policy_simulator.traffic.phases import (
    ClosedLoop,
    DraftTruth,
    Lengths,
    OpenLoop,
    Phase,
    TrafficClass,
)
from unit.policy_simulator.setups import QUIET, machine, text
from unit.shifting_trace.documents import document

EASY = TrafficClass("easy", Lengths(16, 16), Lengths(10, 20), DraftTruth((0.9,)))
HARD = TrafficClass("hard", Lengths(16, 16), Lengths(12, 12), DraftTruth((0.2, 0.1)))


def by_code() -> tuple[Phase, ...]:
    return (
        Phase("a", ClosedLoop(4), (EASY,), duration_s=10.0),
        Phase(
            "b",
            OpenLoop(2.0),
            (EASY, TrafficClass("hard", HARD.prompt_tokens, HARD.output_tokens, HARD.truth, 3.0)),
            duration_s=5.0,
        ),
        Phase("c", ClosedLoop(2), (HARD,), output_tokens=500),
    )


def test_a_trace_gives_the_phases_that_code_would_build() -> None:
    assert phases_of(parse_trace(document(), "small")) == by_code()


def test_a_trace_from_a_file_runs_as_the_same_phases_from_code() -> None:
    """Step by step: the same durations, lengths and tokens."""

    def run(phases: tuple[Phase, ...]) -> list[tuple[object, ...]]:
        logs = run_trace(machine(), HeldLength(3), phases, seed=4, disturbance=QUIET)
        return [
            (log.duration_s.tolist(), log.output_tokens.tolist(), log.accepted_tokens.tolist())
            for log in logs
        ]

    assert run(phases_of(parse_trace(document(), "small"))) == run(by_code())


def test_a_phase_of_output_tokens_ends_with_the_answer_that_completes_them() -> None:
    """Without drafts, one request at a time yields its 12 tokens and then the next begins."""
    kind = text(0.5, output=(12, 12))
    engine = SimulatedEngine(machine(), HeldLength(0), seed=0, disturbance=QUIET)
    log = engine.run(Phase("tokens", ClosedLoop(1), (kind,), output_tokens=30))
    assert int(log.output_tokens.sum()) == 36


@pytest.mark.parametrize(
    "phase",
    [
        {"duration_s": 1.0, "output_tokens": 5},
        {},
    ],
)
def test_a_phase_has_one_end(phase: dict[str, float]) -> None:
    with pytest.raises(
        ValueError, match="needs duration_s or num_steps or output_tokens, and only one"
    ):
        Phase("p", ClosedLoop(1), (EASY,), **phase)  # type: ignore[arg-type]


def test_only_a_steady_closed_loop_ends_by_output_tokens() -> None:
    with pytest.raises(ValueError, match="is not a steady closed loop"):
        Phase("p", OpenLoop(1.0), (EASY,), output_tokens=5)


def test_a_category_without_a_script_is_refused() -> None:
    with pytest.raises(ValueError, match="has no scripted acceptance"):
        phases_of(parse_trace(document("categories", "easy", "scripted"), "t"))


def test_the_command_runs_every_policy_on_a_published_trace(tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    words = ["--shifting-trace", "easy-hard-easy", "--time-scale", "0.02", "--load-scale", "0.5"]
    assert main([*words, "--policy", "latency", "--json", str(file)]) == 0
    result = json.loads(file.read_text())
    assert result["trace"] == "easy-hard-easy"
    assert result["shifting_trace"] == {
        "sha256": find_trace("easy-hard-easy").sha256,
        "load_scale": 0.5,
        "time_scale": 0.02,
    }
    arms = {arm["summary"]["arm"]: arm for arm in result["arms"]}
    assert {"none", "K=0", "K=8", "table", "threshold", "goodput", "latency"} <= set(arms)
    names = [phase["name"] for phase in arms["goodput"]["summary"]["phases"]]
    assert names == ["easy", "hard", "easy again"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--shifting-trace", "nowhere.json"], "trace is 'nowhere.json'; it must be a file or"),
        (["--shifting-trace", "mixed-chat", "--load-scale", "0"], "--load-scale is 0.0"),
        (["--shifting-trace", "mixed-chat", "--time-scale", "nan"], "--time-scale is nan"),
        (["--shifting-trace", "mixed-chat", "--trace", "steady"], "not allowed with"),
    ],
)
def test_wrong_usage_is_refused(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err
