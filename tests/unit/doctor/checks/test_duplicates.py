"""The check of streams against usage."""

from __future__ import annotations

import pytest

from paceline.operations.doctor.checks import duplicates
from paceline.operations.doctor.values import CannotJudge, Severity
from unit.doctor.gateways import observe_gateway, probed


def test_a_stream_with_more_tokens_than_its_usage_is_critical() -> None:
    probe = probed(excess_tokens=(("doctor-1", 34, 32),))
    (finding,) = duplicates.CHECK.judge(observe_gateway(probe=probe))
    assert finding.severity is Severity.CRITICAL
    assert finding.cost.amount == pytest.approx(25)


def test_equal_counts_are_no_finding() -> None:
    assert not duplicates.CHECK.judge(observe_gateway(probe=probed()))


def test_without_counts_it_is_not_judged() -> None:
    with pytest.raises(CannotJudge, match="no stream was read"):
        duplicates.CHECK.judge(observe_gateway())
    with pytest.raises(CannotJudge, match="no token ids"):
        duplicates.CHECK.judge(observe_gateway(probe=probed(num_streams_counted=0)))
