"""A recorded phase has all its requests."""

from __future__ import annotations

from paceline.testing.policy_simulator.evaluation.arms import HeldLength
from paceline.testing.policy_simulator.evaluation.recorded_phase import record_phase
from paceline.testing.policy_simulator.traffic.phases import (
    DraftTruth,
    Lengths,
    Phase,
    TimedLoop,
    TimedRequest,
    TrafficClass,
)
from unit.policy_simulator.setups import machine

_ANY = Lengths(1, 1)
CHAT = TrafficClass("chat", _ANY, _ANY, DraftTruth((0.7,)))


def test_requests_that_never_draft_are_recorded() -> None:
    """Left out, short answers would be too rare: they end before the policy drafts again."""
    named = tuple(TimedRequest(0.5 * n, "chat", 10, tokens) for n, tokens in enumerate((5, 40, 9)))
    phase = Phase("recorded", TimedLoop(), (CHAT,), 20.0, requests=named)
    _, recording = record_phase(machine(), HeldLength(0), phase)
    assert [request.output_tokens for request in recording.requests] == [5, 40, 9]
    assert [request.arrived_s for request in recording.requests] == [0.0, 0.5, 1.0]
    assert [request.asked for request in recording.requests] == [0, 0, 0]
