"""A phase may name its requests: they arrive at their own times, or in turn."""

from __future__ import annotations

import pytest

from paceline.testing.policy_simulator.engine.simulated_engine import SimulatedEngine
from paceline.testing.policy_simulator.evaluation.recorded_phase import record_phase
from paceline.testing.policy_simulator.traffic.phases import (
    ClosedLoop,
    Phase,
    TimedLoop,
    TimedRequest,
)
from unit.policy_simulator.setups import QUIET, Recorder, linear, machine, text

ONE = TimedRequest(0.0, "text", 3, 11)
TWO = TimedRequest(5.0, "text", 7, 21)


def run(phase: Phase, length: int = 0) -> tuple[float, list[float], int]:
    engine = SimulatedEngine(machine(), Recorder(length), seed=1, disturbance=QUIET)
    log = engine.run(phase)
    return log.seconds, log.first_token_s.tolist(), int(log.output_tokens.sum())


def test_timed_requests_arrive_at_their_times() -> None:
    """11 and 21 tokens; the prompts of 3 and 7 tokens take 10 + 1 + 2 * 2 and 10 + 1 + 6 * 2 ms."""
    phase = Phase("timed", TimedLoop(), (text(0.5),), duration_s=20.0, requests=(ONE, TWO))
    seconds, firsts, tokens = run(phase)
    assert (seconds, tokens) == (20.0, 32)
    assert firsts == pytest.approx([0.015, 0.023])


def test_a_closed_loop_takes_them_in_turn_and_begins_again() -> None:
    """One request at a time: 11, 21, 11 tokens, at 11 ms each and 15 or 23 ms for the prompt."""
    steps = 11 + 21 + 11
    phase = Phase("turn", ClosedLoop(1), (text(0.5),), num_steps=steps, requests=(ONE, TWO))
    seconds, firsts, tokens = run(phase)
    assert (len(firsts), tokens) == (3, steps)
    assert seconds == pytest.approx(0.011 * (steps - 3) + 0.015 + 0.023 + 0.015)


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ((), "it needs requests, in order of arrival"),
        ((TWO, ONE), "it needs requests, in order of arrival"),
        ((TimedRequest(0.0, "other", 1, 1),), "a request of class 'other', which is none of"),
    ],
)
def test_requests_that_do_not_fit_the_phase_are_refused(
    requests: tuple[TimedRequest, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Phase("wrong", TimedLoop(), (text(0.5),), duration_s=1.0, requests=requests)


@pytest.mark.parametrize("wrong", [(-1.0, 1, 1), (0.0, 0, 1), (0.0, 1, 0)])
def test_a_request_without_tokens_or_before_the_start_is_refused(
    wrong: tuple[float, int, int],
) -> None:
    with pytest.raises(ValueError, match="must be at least 1, and the time not negative"):
        TimedRequest(wrong[0], "text", *wrong[1:])


def test_a_recorded_phase_has_its_requests_steps_and_verdicts() -> None:
    """Two requests with certain drafts of 2 tokens: three tokens a step."""
    phase = Phase("timed", TimedLoop(), (text(1.0),), duration_s=20.0, requests=(ONE, TWO))
    on = machine(cost=linear())
    log, recording = record_phase(on, Recorder(2), phase, disturbance=QUIET)
    assert [(r.arrived_s, r.output_tokens) for r in recording.requests] == [(0.0, 11), (5.0, 21)]
    assert all(r.tried == r.accepted for r in recording.requests)
    cells = [cell for block in recording.blocks for cell in block.cells]
    assert sum(cell.count for cell in cells) == log.num_steps
    total_s = sum(cell.seconds * cell.count for cell in cells)
    assert total_s == pytest.approx(log.duration_s.sum())
    assert recording.seconds == 20.0
