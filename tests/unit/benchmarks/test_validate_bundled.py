"""The benchmark of the validator on the bundled pair: which faults its deployment can have."""

from __future__ import annotations

from benchmarks.validate_bundled import suits
from paceline.testing.fault_injection import FAULTS


def test_faults_are_left_out_that_need_what_the_deployment_lacks() -> None:
    suited = {fault.name for fault in FAULTS if suits(fault)}
    assert {"token-twice", "acceptance-low", "metrics-500"} <= suited
    assert not {"keys-ignored", "drain-ignored"} & suited, "it has no keys and one replica"
    assert "kv-leak" not in suited, "its answers end before the gauges show them"
    assert len(suited) >= 25
