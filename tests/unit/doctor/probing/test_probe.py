"""`--probe` and `--fix` on a gateway whose speed is known at every draft length."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from paceline.foundation.servers.governor import switch as governor_switch
from paceline.operations.doctor.diagnosing import Visit, diagnose, fix_server, visit_server
from paceline.operations.doctor.errors import DoctorError
from paceline.operations.doctor.output.document import render_document, visit_exit_code
from paceline.operations.doctor.output.lines import render_lines
from paceline.operations.doctor.probing import alternation
from paceline.operations.doctor.probing.alternation import summarize
from unit.doctor.governed import GovernedGateway, serving

LOSING = {"policy": "fixed", "draft_length": 3, "fast_s": 0.05, "slow_s": 0.002}
"""A token takes 50 ms with drafts and 2 ms without."""


@contextlib.asynccontextmanager
async def _measuring(
    monkeypatch: pytest.MonkeyPatch, gateway: GovernedGateway
) -> AsyncIterator[GovernedGateway]:
    """Blocks of the gateway have the rates of its state, whatever else this machine computes."""
    monkeypatch.setattr(alternation, "_rate", gateway.rate)
    async with serving(gateway) as running:
        yield running


async def _visit(gateway: GovernedGateway, *, fixes: bool = False) -> Visit:
    visit = Visit(gateway.config(fixes=fixes))
    await visit_server(visit)
    return visit


async def test_the_gain_of_drafts_is_measured_and_the_policy_restored() -> None:
    async with serving(GovernedGateway(fast_s=0.002, slow_s=0.05)) as gateway:
        visit = await _visit(gateway)
        assert gateway.policy == "goodput"
    assert visit.probe is not None
    assert visit.probe.gain is not None
    assert visit.probe.gain.value > 1.5  # 25 on an idle machine
    assert visit.probe.num_failed == 0
    assert visit.probe.num_requests > 8
    diagnosis = diagnose(visit)
    lines = " ".join(" ".join(render_lines(visit, diagnosis)).split())
    assert "throughput of the workload hard at temperature 1 by a factor of" in lines
    assert "measured: blocks of the same prompts" in lines


async def test_a_measured_loss_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    async with _measuring(monkeypatch, GovernedGateway(**LOSING)) as gateway:
        visit = await _visit(gateway)
        assert (gateway.policy, gateway.draft_length) == ("fixed", 3)
    diagnosis = diagnose(visit)
    (finding,) = diagnosis.findings
    assert (finding.id, finding.cost.basis) == ("speculation-loses", "measured")
    assert "on the workload hard at temperature 1" in finding.summary
    assert visit.probe is not None
    assert visit.probe.gain is not None
    assert visit.probe.gain.value == pytest.approx(0.002 / 0.05)
    assert visit_exit_code(visit, diagnosis) == 1


@pytest.mark.parametrize(
    ("changes", "temperature"),
    [
        ({}, 1.0),
        ({"workload": "predictable"}, 0.0),
        ({"workload": "predictable", "temperature": 0.7}, 0.7),
        ({"prompts_file": "mine.jsonl"}, 0.0),
    ],
)
async def test_requests_have_the_temperature_of_their_workload(
    changes: dict[str, Any], temperature: float, tmp_path: Path
) -> None:
    """Greedy answers to prompts that are meant to be sampled are drafted too well."""
    if "prompts_file" in changes:
        changes["prompts_file"] = tmp_path / changes["prompts_file"]
        changes["prompts_file"].write_text('{"prompt": "Why?"}')
    async with serving(GovernedGateway()) as gateway:
        config = gateway.config()
        assert config.probe is not None
        probe = dataclasses.replace(config.probe, **changes)
        visit = Visit(dataclasses.replace(config, probe=probe))
        await visit_server(visit)
    sent = [body for body in gateway.bodies if "Count to ten" not in str(body)]
    assert {body["temperature"] for body in sent} == {temperature}
    assert visit.probe is not None
    assert visit.probe.temperature == temperature
    assert visit.probe.workload == probe.workload_label


async def test_ctrl_c_restores_the_policy() -> None:
    async with serving(GovernedGateway(slow_s=1.0)) as gateway:
        task = asyncio.create_task(_visit(gateway))
        await asyncio.wait_for(gateway.off.wait(), 60)
        assert gateway.draft_length == 0
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert gateway.policy == "goodput"


async def test_a_fix_that_helps_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drafts lose under the fixed length; goodput, here without the loss, is kept."""
    async with _measuring(monkeypatch, GovernedGateway(**LOSING, goodput_s=0.002)) as gateway:
        visit = await _visit(gateway, fixes=True)
        diagnosis = diagnose(visit)
        assert visit_exit_code(visit, diagnosis) == 1
        await fix_server(visit, diagnosis)
        assert gateway.policy == "goodput"
    assert visit.fix is not None
    assert visit.fix.is_kept
    assert visit.fix.gain is not None
    assert visit.fix.gain.num_pairs >= 6
    assert visit.fix.gain.low > 2
    assert visit_exit_code(visit, diagnosis) == 0
    assert 'Changed: {"policy": "goodput"} on engine-0' in "\n".join(render_lines(visit, diagnosis))


async def test_a_fix_that_does_not_help_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under goodput this gateway is no faster than before."""
    async with _measuring(monkeypatch, GovernedGateway(**LOSING)) as gateway:
        visit = await _visit(gateway, fixes=True)
        diagnosis = diagnose(visit)
        await fix_server(visit, diagnosis)
        assert (gateway.policy, gateway.draft_length) == ("fixed", 3)
        assert {"policy": "goodput", "replica": "engine-0"} in gateway.changes
    assert visit.fix is not None
    assert not visit.fix.is_kept
    assert visit_exit_code(visit, diagnosis) == 1
    assert "Not kept" in "\n".join(render_lines(visit, diagnosis))


async def test_ctrl_c_takes_a_fix_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async with _measuring(monkeypatch, GovernedGateway(**LOSING)) as gateway:
        visit = await _visit(gateway, fixes=True)
        diagnosis = diagnose(visit)
        gateway.changed.clear()
        task = asyncio.create_task(fix_server(visit, diagnosis))
        await asyncio.wait_for(gateway.changed.wait(), 60)
        assert gateway.policy == "goodput"
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (gateway.policy, gateway.draft_length) == ("fixed", 3)
    assert visit.fix is not None
    assert visit.fix.reason == "interrupted: taken back"


async def test_without_a_finding_nothing_is_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with _measuring(monkeypatch, GovernedGateway(fast_s=0.002, slow_s=0.05)) as gateway:
        visit = await _visit(gateway, fixes=True)
        before = len(gateway.changes)
        await fix_server(visit, diagnose(visit))
        assert len(gateway.changes) == before
    assert visit.fix is not None
    assert visit.fix.fix is None


async def test_a_governor_that_refuses_changes_leaves_the_gain_unknown() -> None:
    """The first change is refused, so that nothing is to be restored but what may have arrived."""
    async with serving(GovernedGateway(num_refused=1)) as gateway:
        visit = await _visit(gateway)
    assert visit.probe is not None
    assert visit.probe.gain is None
    assert "503" in str(visit.probe.gain_reason)
    lines = "\n".join(render_lines(visit, diagnose(visit)))
    assert "The gain of drafts was not measured:" in lines


class _Locked(GovernedGateway):
    """Every change but the first, which switches drafts off, is refused."""

    async def _change(self, request: web.Request) -> web.Response:
        if self.draft_length == 0:
            self.num_refused = 1
        return await super()._change(request)


async def test_a_failed_restoration_is_critical_and_nothing_is_fixed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(governor_switch, "_RESTORE_WITHIN_S", 0.1)
    async with _measuring(monkeypatch, _Locked(**LOSING)) as gateway:
        visit = await _visit(gateway, fixes=True)
        diagnosis = diagnose(visit)
        await fix_server(visit, diagnosis)
        assert {"policy": "goodput", "replica": "engine-0"} not in gateway.changes
    assert visit_exit_code(visit, diagnosis) == 3
    document = render_document(visit, diagnosis, "0")
    assert "curl -X PATCH" in document["restore_failure"]
    assert "?replica=engine-0" in capsys.readouterr().err
    assert "NOT RESTORED" in "\n".join(render_lines(visit, diagnosis))


async def test_ctrl_c_before_a_failed_restoration_is_critical(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(governor_switch, "_RESTORE_WITHIN_S", 0.1)
    async with serving(_Locked(slow_s=1.0)) as gateway:
        visit = Visit(gateway.config())
        task = asyncio.create_task(visit_server(visit))
        await asyncio.wait_for(gateway.off.wait(), 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    visit.is_interrupted = True
    assert visit_exit_code(visit, diagnose(visit)) == 3


async def test_a_change_by_another_ends_the_comparison_and_stays() -> None:
    """An operator fixes the length at 5 while drafts are off."""
    async with serving(GovernedGateway(slow_s=0.05)) as gateway:
        visit = Visit(gateway.config(fixes=True))
        task = asyncio.create_task(visit_server(visit))
        await asyncio.wait_for(gateway.off.wait(), 60)
        gateway.draft_length = 5
        await task
        diagnosis = diagnose(visit)
        await fix_server(visit, diagnosis)
        assert (gateway.policy, gateway.draft_length) == ("fixed", 5)
    assert visit.probe is not None
    assert visit.probe.gain is None
    assert "set by another program or an operator" in str(visit.probe.gain_reason)
    assert visit_exit_code(visit, diagnosis) == 5


async def test_requests_that_fail_while_settings_are_compared_leave_the_gain_unknown() -> None:
    class Failing(GovernedGateway):
        async def _complete(self, request: web.Request) -> web.StreamResponse:
            if self.draft_length == 0:
                return web.json_response({"error": {"message": "no"}}, status=500)
            return await super()._complete(request)

    async with serving(Failing()) as gateway:
        visit = await _visit(gateway)
        assert gateway.policy == "goodput"
    assert visit.probe is not None
    assert visit.probe.gain is None
    assert "requests failed" in str(visit.probe.gain_reason)
    assert visit.probe.num_failed > 0


async def test_the_admin_port_takes_no_requests() -> None:
    async with serving(GovernedGateway()) as gateway:
        config = gateway.config()
        assert config.probe is not None
        object.__setattr__(config.probe, "data_url", config.url)
        with pytest.raises(DoctorError, match="give --data-url"):
            await visit_server(Visit(config))


async def test_a_server_without_models_cannot_be_probed() -> None:
    async with serving(GovernedGateway(refuses=("/v1/completions", "/v1/chat/completions"))) as one:
        with pytest.raises(DoctorError, match="--probe: the server answers no request"):
            await visit_server(Visit(one.config()))


def test_pairs_are_summarized_with_their_interval() -> None:
    """Ratios 2 and 8: logarithms 1 and 3 times ln 2, with a standard error of ln 2."""
    gain = summarize([20.0, 32.0], [10.0, 4.0], 3)
    assert gain.value == pytest.approx(4.0)
    assert gain.low == pytest.approx(4.0 / 2**12.71)
    assert gain.high == pytest.approx(4.0 * 2**12.71)
    assert (gain.num_pairs, gain.concurrency, gain.tokens_per_s) == (2, 3, 26.0)
