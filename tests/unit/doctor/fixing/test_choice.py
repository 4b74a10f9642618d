"""Which change answers which findings, and when it is kept."""

from __future__ import annotations

import pytest

from paceline.operations.doctor.fixing.choice import choose_fix, helps
from paceline.operations.doctor.readings.probe_result import MeasuredGain
from paceline.operations.doctor.values import Finding, Severity, unknown_cost


def _finding(name: str, subject: str | None = None) -> Finding:
    return Finding(name, Severity.WARNING, "", (), unknown_cost(""), "", "", (), subject)


def _governors(**policies: str) -> dict[str, dict[str, str]]:
    return {name: {"policy": policy} for name, policy in policies.items()}


def test_a_fixed_length_is_freed_where_it_loses() -> None:
    fix = choose_fix(
        [_finding("kv-cache-full", "b"), _finding("draft-too-long", "a")],
        _governors(a="fixed", b="fixed"),
    )
    assert fix is not None
    assert (fix.change, fix.replicas) == ({"policy": "goodput"}, ("a",))
    assert fix.findings == (("draft-too-long", "a"),)


def test_a_measured_loss_concerns_all_replicas_that_are_not_free() -> None:
    fix = choose_fix([_finding("speculation-loses")], _governors(a="goodput", b="schedule"))
    assert fix is not None
    assert (fix.change, fix.replicas) == ({"policy": "goodput"}, ("b",))


def test_a_finding_about_a_replica_that_is_not_changed_is_not_answered() -> None:
    """ "b" serves another model than the probe measured, so its governor is not among them."""
    findings = [_finding("draft-too-long", "a"), _finding("draft-too-long", "b")]
    fix = choose_fix(findings, _governors(a="fixed"))
    assert fix is not None
    assert fix.findings == (("draft-too-long", "a"),)


def test_a_loss_of_the_model_is_not_answered_if_a_replica_keeps_its_policy() -> None:
    fix = choose_fix([_finding("speculation-loses")], _governors(a="fixed", b="latency"))
    assert fix is not None
    assert (fix.replicas, fix.findings) == (("a",), ())


@pytest.mark.parametrize("policy", ["latency", "threshold", "off", "policy_of_a_package"])
def test_a_policy_that_was_chosen_for_something_else_stays(policy: str) -> None:
    assert choose_fix([_finding("speculation-loses")], _governors(a=policy)) is None


def test_drafts_are_not_switched_off_because_synthetic_prompts_lose() -> None:
    assert choose_fix([_finding("speculation-loses")], _governors(a="goodput", b="goodput")) is None


def test_other_findings_and_other_servers_have_no_fix() -> None:
    assert choose_fix([_finding("kv-cache-full", "a")], _governors(a="fixed")) is None
    assert choose_fix([_finding("speculation-loses")], {}) is None
    assert choose_fix([_finding("draft-too-long", "c")], _governors(a="fixed")) is None


@pytest.mark.parametrize(
    ("low", "value", "expected"),
    [(1.01, 1.1, True), (0.99, 1.1, False), (1.001, 1.01, False)],
)
def test_a_change_is_kept_if_it_helps_for_certain(low: float, value: float, expected: bool) -> None:
    gain = MeasuredGain(value, low, 2.0, 6, 8, 100.0)
    assert helps(gain) is expected
