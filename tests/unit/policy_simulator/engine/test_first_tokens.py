"""First-token verdicts at draft length 0."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.policy_simulator.engine.simulated_engine import SimulatedEngine
from unit.policy_simulator.setups import Recorder, machine, steps, text

REPORTING = machine("keeps_up").reporting_first_tokens()


@pytest.mark.parametrize("is_async", [False, True])
def test_a_verdict_is_that_of_a_real_draft(is_async: bool) -> None:
    """One request: where it drafts one token, the draft has the verdict reported for that position.

    Verdicts start with the second token; a draft that is accepted skips one of them.
    """
    phase = steps(60, 1, text(0.6))
    reporting, drafting = Recorder(0), Recorder(1)
    for policy in (reporting, drafting):
        SimulatedEngine(replace(REPORTING, is_async=is_async), policy).run(phase)
    verdicts = [verdict for sample in reporting.samples for verdict in sample.first_token_verdicts]
    assert len(verdicts) >= 50
    position = 0
    for sample in drafting.samples:
        assert not (sample.first_token_verdicts and sample.drafted)
        for accepted in sample.accepted:
            if position < len(verdicts):
                assert accepted == verdicts[position]
            position += 1 + accepted


def test_verdicts_cover_every_decoding_request_and_only_at_length_0() -> None:
    """Lengths in turn: a step judges the drafts of the step before it, or else reports verdicts."""
    policy = Recorder(0, 0, 2)
    SimulatedEngine(REPORTING, policy).run(steps(30, 4, text(0.5, output=(1000, 1000))))
    counts = [(len(s.first_token_verdicts), len(s.drafted)) for s in policy.samples[1:]]
    assert counts[:6] == [(4, 0), (4, 0), (0, 4), (4, 0), (4, 0), (0, 4)]


def test_other_engines_report_no_verdicts() -> None:
    policy = Recorder(0)
    SimulatedEngine(machine("keeps_up"), policy).run(steps(10, 2, text(0.5)))
    assert not any(sample.first_token_verdicts for sample in policy.samples)
    assert not policy.loads[0].has_first_token_verdicts
    with pytest.raises(ValueError, match="computes no token at draft length 0"):
        machine("rests").reporting_first_tokens()
