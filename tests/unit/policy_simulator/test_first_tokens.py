"""An engine that tells at draft length 0 whether its first draft token came."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.policy_simulator.engine.simulated_engine import SimulatedEngine
from unit.policy_simulator.setups import Recorder, machine, steps, text

TELLING = machine("keeps_up").reporting_first_tokens()


@pytest.mark.parametrize("is_async", [False, True])
def test_it_tells_what_a_draft_would_have_met(is_async: bool) -> None:
    """One request: where it drafts one token, the draft fares as was told of that position.

    The tokens told of are the second on; a draft that is accepted skips one of them.
    """
    phase = steps(60, 1, text(0.6))
    telling, drafting = Recorder(0), Recorder(1)
    for policy in (telling, drafting):
        SimulatedEngine(replace(TELLING, is_async=is_async), policy).run(phase)
    told = [verdict for sample in telling.samples for verdict in sample.first_token_verdicts]
    assert len(told) >= 50
    position = 0
    for sample in drafting.samples:
        assert not (sample.first_token_verdicts and sample.drafted)
        for accepted in sample.accepted:
            if position < len(told):
                assert accepted == told[position]
            position += 1 + accepted


def test_it_tells_of_every_decoding_request_and_only_at_length_0() -> None:
    """Lengths in turn: a step judges drafts, or tells, by what the one before it drafted."""
    policy = Recorder(0, 0, 2)
    SimulatedEngine(TELLING, policy).run(steps(30, 4, text(0.5, output=(1000, 1000))))
    counts = [(len(s.first_token_verdicts), len(s.drafted)) for s in policy.samples[1:]]
    assert counts[:6] == [(4, 0), (4, 0), (0, 4), (4, 0), (4, 0), (0, 4)]


def test_others_tell_nothing() -> None:
    policy = Recorder(0)
    SimulatedEngine(machine("keeps_up"), policy).run(steps(10, 2, text(0.5)))
    assert not any(sample.first_token_verdicts for sample in policy.samples)
    assert not policy.loads[0].has_first_token_verdicts
    with pytest.raises(ValueError, match="computes no token at draft length 0"):
        machine("rests").reporting_first_tokens()
