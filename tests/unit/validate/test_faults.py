"""Every fault is found by the check that must find it, for its own reason; a clean run has none.

The faults are injected by a proxy in front of a mock vLLM, or of a gateway over two of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline.operations.validate.checks import CHECKS, Check
from paceline.operations.validate.target.counters import MetricFamily, name_of
from paceline.operations.validate.values import Status
from paceline.testing.fault_injection import FAULTS, Fault
from paceline.testing.fault_injection.fault import Call, Reply
from paceline.testing.mock_vllm import FaultKind
from unit.validate.deployments import (
    EXPECTED_SKIPS,
    MOCKS,
    SETTLE_S,
    SETTLE_WITH_FAULT_S,
    RunningDeployment,
    check_of,
    running,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

_LONG = ("lossless",)
"""Tested with defects of the sampler."""
_AFTER_A_LAG_S = 2.0
"""For faults that show only after gauges that lag, or after the end of an answer."""
_CHECKS = [check for check in CHECKS if check.id not in _LONG]


def _of(deployment: str) -> list[Fault]:
    return [fault for fault in FAULTS if fault.deployment == deployment]


async def _expect_found(
    deployment: RunningDeployment, fault: Fault, settle_s: float = SETTLE_WITH_FAULT_S
) -> None:
    result = await deployment.run_check_with(check_of(fault), fault, settle_s)
    assert result.status is Status.FAIL, result
    assert fault.evidence in result.reason


@pytest.mark.parametrize("check", _CHECKS, ids=lambda check: check.id)
async def test_a_sound_server_passes(plain: RunningDeployment, check: Check[Any]) -> None:
    result = await plain.run(check)
    expected = Status.SKIP if result.id in EXPECTED_SKIPS["plain"] else Status.PASS
    assert result.status is expected, result.reason


@pytest.mark.parametrize("check", _CHECKS, ids=lambda check: check.id)
async def test_a_sound_gateway_passes(gateway: RunningDeployment, check: Check[Any]) -> None:
    result = await gateway.run(check)
    expected = Status.SKIP if result.id in EXPECTED_SKIPS["gateway"] else Status.PASS
    assert result.status is expected, result.reason


@pytest.mark.parametrize("fault", _of("plain"), ids=lambda fault: fault.name)
async def test_a_fault_of_a_server_is_found(plain: RunningDeployment, fault: Fault) -> None:
    await _expect_found(plain, fault)


@pytest.mark.parametrize("fault", _of("drafting"), ids=lambda fault: fault.name)
async def test_a_fault_of_drafting_is_found(drafting: RunningDeployment, fault: Fault) -> None:
    assert (await drafting.run(check_of(fault))).status is Status.PASS  # one run serves all
    await _expect_found(drafting, fault)


@pytest.mark.parametrize("fault", _of("baseline"), ids=lambda fault: fault.name)
async def test_a_fault_of_the_model_is_found(fault: Fault) -> None:
    async with running("baseline") as deployment:
        clean = await deployment.run(check_of(fault))
        assert clean.status is Status.PASS, clean.reason
        await _expect_found(deployment, fault)


@pytest.mark.parametrize("fault", _of("gateway"), ids=lambda fault: fault.name)
async def test_a_fault_of_a_gateway_is_found(gateway: RunningDeployment, fault: Fault) -> None:
    await _expect_found(gateway, fault)


async def test_a_lost_cancellation_is_found_where_gauges_lag(gateway: RunningDeployment) -> None:
    """The gateway's gauges are those of its last poll, which may be older than the streams."""
    (fault,) = [fault for fault in FAULTS if fault.name == "cancellation-lost"]
    await _expect_found(gateway, fault, _AFTER_A_LAG_S)


async def test_a_lost_cancellation_is_found_where_the_answer_ends_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In a short context the gauges fall by themselves before the check gives up."""
    monkeypatch.setitem(MOCKS, "plain", replace(MOCKS["plain"], max_model_len=1024))
    (fault,) = [fault for fault in FAULTS if fault.name == "cancellation-lost"]
    async with running("plain") as deployment:
        result = await deployment.run_check_with(check_of(fault), fault, _AFTER_A_LAG_S)
    assert result.status is Status.FAIL, result.reason
    assert "requests run to their end" in result.reason


async def test_gauges_that_appear_after_a_while_are_waited_for(plain: RunningDeployment) -> None:
    """A gateway shows no load of its replicas before it has read it for the first time."""
    (missing,) = [fault for fault in FAULTS if fault.name == "metric-missing"]

    def on_reply(call: Call, reply: Reply) -> Reply:
        return missing.on_reply(call, reply) if call.number < 2 else reply

    appearing = replace(missing, on_reply=on_reply)
    result = await plain.run_check_with(check_of(missing), appearing, SETTLE_S)
    assert result.status is Status.PASS, result.reason


async def test_a_lossy_sampler_is_found() -> None:
    """One defect that needs no statistics; the auditor's own tests have the others."""
    check = next(check for check in CHECKS if check.id == "lossless")
    async with running("drafting", FaultKind.ARGMAX_FLIP) as deployment:
        result = await deployment.run(check)
    assert result.status is Status.FAIL
    assert result.reason.startswith("lossy: ")


async def test_every_check_has_a_fault() -> None:
    assert {check.id for check in _CHECKS} == {fault.check for fault in FAULTS}
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 25


@pytest.mark.parametrize("name", ["acceptance-low", "requests-undercounted", "gauge-stuck"])
@pytest.mark.parametrize("dialect", ["vllm", "paceline"])
async def test_a_fault_of_a_metric_reaches_both_dialects(name: str, dialect: str) -> None:
    """The acceptance's was injected into vLLM's counter only: a run before a gateway missed it."""
    families = {
        "acceptance-low": MetricFamily.ACCEPTED,
        "requests-undercounted": MetricFamily.FINISHED,
        "gauge-stuck": MetricFamily.RUNNING,
    }
    (fault,) = [fault for fault in FAULTS if fault.name == name]
    call = Call("GET", "/metrics", {}, b"", True, 0, 1, None, None, {})
    page = f'{name_of(families[name], dialect)}{{model="m"}} 40\n'.encode()
    assert fault.on_reply(call, Reply(200, {}, page)).body != page
