"""What is read off a run: adapting, exploring, switching, and the comparison of arms."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from paceline.testing.policy_simulator.command import main
from paceline.testing.policy_simulator.engine.simulated_engine import SimulatedEngine
from paceline.testing.policy_simulator.evaluation.arms import HeldLength, run_trace, tune_table
from paceline.testing.policy_simulator.evaluation.compare import compare_arms
from paceline.testing.policy_simulator.evaluation.fleet import simulate_fleet
from paceline.testing.policy_simulator.evaluation.oracle import steady_rates
from paceline.testing.policy_simulator.evaluation.summary import (
    Judge,
    find_excursions,
    steps_to_adapt,
)
from paceline.testing.policy_simulator.evaluation.traces import TRACE_NAMES, build_trace
from paceline.testing.policy_simulator.machines.profiles import load_profile, profile_names
from paceline.testing.policy_simulator.traffic.phases import ClosedLoop
from unit.policy_simulator.setups import QUIET, Recorder, machine, steps, text


@pytest.mark.parametrize(
    ("fractions", "steps_needed"),
    [
        ([1.0] * 40, 0),
        ([0.8] * 40, None),
        ([0.5] * 20 + [1.0] * 40, 19),  # 15 good and one bad of 16 average 0.97
        ([1.0] * 20 + [0.5] * 40, None),  # good at first only: the load shifted within the phase
        ([1.0] * 15, None),  # too short to tell
    ],
)
def test_steps_to_adapt(fractions: list[float], steps_needed: int | None) -> None:
    assert steps_to_adapt(np.asarray(fractions)) == steps_needed


@pytest.mark.parametrize(
    ("lengths", "excursions"),
    [
        ("3343333", "..x...."),  # one probe
        ("3345333", "..xx..."),  # through two lengths and back
        ("3311111", "......."),  # a switch, never taken back
        ("3344444444433", "............."),  # back after nine steps: two switches
        ("0080000810", "..x...." + "xx."),  # bursts out of off
        ("333", "..."),
        ("", ""),
    ],
)
def test_excursions_are_told_from_switches(lengths: str, excursions: str) -> None:
    """Up to eight steps away from a length and back to it."""
    found = find_excursions(np.asarray([int(length) for length in lengths], dtype=np.int64))
    assert "".join("x" if away else "." for away in found) == excursions


def test_the_summary_of_a_run() -> None:
    """Four endless requests, hazard 0.5: steady rates 286, 240 and 194 tokens/s (see the oracle).

    Of 20 steps at length 0 but one at 2, one of 36 ms beside 19 of 14: exploring takes 11.9 % of
    the steady time and loses 1 - 194 / 286 of it, 3.8 %.
    """
    endless = text(0.5, output=(10**6, 10**6), prompt=(2, 2))
    phase = steps(20, 4, endless)
    on = machine(max_draft_length=2)
    policy = Recorder(*[0] * 10, 2, *[0] * 9)
    log = SimulatedEngine(on, policy, disturbance=QUIET).run(phase)
    [summary] = Judge(on).summarize("recorded", [log]).phases
    rates = [rate.tokens_per_s for rate in steady_rates(phase, 4, on)]
    seconds = 19 * 0.014 + 0.036
    loss = (1 - rates[2] / rates[0]) * 0.036 / seconds
    assert (summary.best_length, summary.common_length, summary.steps_to_adapt) == (0, 0, 0)
    assert summary.exploring_loss_fraction == pytest.approx(loss, rel=1e-3)
    assert summary.steady_fraction == pytest.approx(1 - loss, rel=1e-3)
    assert summary.switching_fraction == 0.0
    assert summary.exploring_fraction == pytest.approx(log.duration_s[10] / log.duration_s.sum())
    assert summary.off_fraction == pytest.approx(1 - summary.exploring_fraction)
    assert summary.inter_chunk_p50_s == pytest.approx(0.014)


def test_a_table_takes_the_best_length_of_every_range() -> None:
    """Two runs, at length 0 and 1: certain drafts win alone, and lose to their price in a crowd."""
    on = machine(max_draft_length=1)
    alone = steps(30, 1, text(1.0, prompt=(2, 2)))
    crowd = steps(30, 20, text(0.1, prompt=(2, 2)))
    sweep = [
        [
            *run_trace(on, HeldLength(length), [alone], seed=0),
            *run_trace(on, HeldLength(length), [crowd], seed=0),
        ]
        for length in (0, 1)
    ]
    assert tune_table(sweep, 20) == [
        (1, 1, 1),
        (2, 3, 1),
        (4, 7, 1),
        (8, 15, 1),
        (16, 31, 0),
    ]


def test_arms_are_judged_against_the_best_of_each_phase() -> None:
    """Easy alone, then hopeless in a crowd: every held length loses one of the two phases.

    The table, tuned on the same traffic, is near the oracle; the worst phase of never drafting is
    the easy one.
    """
    easy = replace(steps(60, 2, text(0.95, prompt=(2, 2))), name="easy")
    hard = replace(steps(60, 12, text(0.05, prompt=(2, 2))), name="hard")
    result = compare_arms(machine(max_draft_length=4), (easy, hard), governed=("goodput",))
    assert [arm.summary.arm for arm in result.arms] == [
        "none",
        *(f"K={length}" for length in range(5)),
        "table",
        "goodput",
    ]
    assert result.arm("K=0").worst_phase == "easy"
    assert result.arm("K=4").worst_phase == "hard"
    assert result.arm("table").mean_phase_fraction > 0.97
    assert result.arm("table").mean_phase_fraction > max(
        result.arm(f"K={length}").mean_phase_fraction for length in range(5)
    )
    for arm in result.arms:
        assert 0.0 < arm.worst_phase_fraction <= arm.fraction_of_oracle + 0.5 <= 1.51


def test_a_fleet_is_its_replicas() -> None:
    """All four simulated: their sum without a margin. Two of them: within four margins of it."""
    phase = replace(steps(1, 4, text(0.7)), num_steps=None, duration_s=5.0)
    on = machine()
    whole = simulate_fleet(on, [phase], lambda: HeldLength(2), num_replicas=4, num_simulated=4)
    alone = [
        run_trace(on, HeldLength(2), [phase], seed=replica)[0].tokens_per_s for replica in range(4)
    ]
    assert whole.tokens_per_s == pytest.approx(sum(alone))
    assert whole.tokens_per_s_margin == 0.0
    assert whole.slowest_replica_fraction == pytest.approx(min(alone) / (sum(alone) / 4))
    part = simulate_fleet(on, [phase], lambda: HeldLength(2), num_replicas=4, num_simulated=2)
    assert abs(part.tokens_per_s - whole.tokens_per_s) < 4 * part.tokens_per_s_margin
    with pytest.raises(ValueError, match="num_simulated is 5; it must be from 2 to num_replicas"):
        simulate_fleet(on, [phase], lambda: HeldLength(2), num_replicas=4, num_simulated=5)


@pytest.mark.parametrize("profile_name", profile_names())
def test_every_trace_fits_every_profile(profile_name: str) -> None:
    """With a model and an n-gram drafter; the shifting one asks for at least three lengths."""
    profile = load_profile(profile_name)
    for drafting in (profile, replace(profile, machine=profile.machine.with_ngram())):
        for name in TRACE_NAMES:
            trace = build_trace(name, drafting)
            SimulatedEngine(drafting.machine, Recorder(1)).run(replace(trace[0], duration_s=0.05))
        shifting = build_trace("shifting", drafting)
        assert len(shifting) >= 6
        best = set()
        for phase in shifting:
            assert isinstance(phase.load, ClosedLoop)
            rates = steady_rates(phase, phase.load.first, drafting.machine)
            best.add(max(rates, key=lambda rate: rate.tokens_per_s).draft_length)
        assert len(best) >= 3
    with pytest.raises(ValueError, match="trace is 'calm'; it must be one of steady, shifting"):
        build_trace("calm", profile)


def test_the_command_prints_a_table_and_writes_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fleet of three, two of them simulated, on the shortest trace."""
    file = tmp_path / "result.json"
    arguments = "--profile cpu-small --trace steady --replicas 3 --simulate 2 --json"
    assert main([*arguments.split(), str(file)]) == 0
    result = json.loads(file.read_text())
    assert set(result["fleet"]) == {"off", "threshold", "goodput"}
    assert math.isclose(result["fleet"]["off"]["slowest_replica_fraction"], 1.0, rel_tol=0.1)
    shown = capsys.readouterr().out
    assert "goodput" in shown
    with pytest.raises(SystemExit) as stop:
        main(["--profile", "tpu"])
    assert stop.value.code == 2
