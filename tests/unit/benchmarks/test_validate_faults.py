"""The benchmark of the validator's faults: where each is injected, and what is summed up."""

from __future__ import annotations

import pytest

from benchmarks.validate_faults import is_anything_wrong, kinds_of, summarise
from paceline.testing.fault_injection import FAULTS


def test_faults_of_any_server_are_also_injected_before_the_gateway() -> None:
    kinds = {fault.name: kinds_of(fault) for fault in FAULTS}
    assert kinds["token-twice"] == ("plain", "gateway")
    assert kinds["keys-ignored"] == ("plain",)
    assert kinds["drain-ignored"] == ("gateway",)
    assert kinds["acceptance-low"] == ("drafting",)


def test_the_summary_counts_what_was_missed_and_what_failed_without_a_fault() -> None:
    faults = [
        {"fault": "a", "deployment": kind, "check": "x", "is_found": is_found}
        for kind, is_found in (("plain", True), ("gateway", False))
    ]
    clean = [
        {"is_audited": False, "num_passed": 30, "failed": [], "unexpected_skips": ["models"]},
        {
            "is_audited": True,
            "num_passed": 29,
            "failed": [["usage", "why"]],
            "unexpected_skips": [],
        },
    ]
    assert summarise({"faults": faults, "clean_runs": clean}) == {
        "num_faults": 1,
        "num_injected": 2,
        "num_found": 1,
        "not_found": [["a", "gateway"]],
        "num_checks_proved": 1,
        "num_clean_runs": 2,
        "num_clean_runs_audited": 1,
        "num_clean_checks_passed": 59,
        "num_false_failures": 1,
        "num_unexpected_skips": 1,
    }


RIGHT = {"num_found": 90, "not_found": [], "num_false_failures": 0, "num_unexpected_skips": 0}


@pytest.mark.parametrize(
    "wrong",
    [{"not_found": [["a", "plain"]]}, {"num_false_failures": 1}, {"num_unexpected_skips": 1}],
)
def test_a_miss_and_a_false_failure_make_the_run_fail(wrong: dict[str, object]) -> None:
    assert not is_anything_wrong(RIGHT)
    assert is_anything_wrong(RIGHT | wrong)
