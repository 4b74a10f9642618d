"""While the gate is closed, no change by an operator begins or is under way."""

from __future__ import annotations

import asyncio

import pytest

from paceline.runtime.gateway.admin.change_gate import ChangeGate
from paceline.runtime.gateway.http.errors import Refusal


async def test_closing_waits_for_changes_under_way_and_refuses_others() -> None:
    gate = ChangeGate()
    with gate.change():
        with gate.change():
            closing = asyncio.create_task(gate.close())
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not closing.done()
        with pytest.raises(Refusal) as refused, gate.change():
            pass
        assert (refused.value.problem.status, refused.value.problem.retry_after_s) == (503, 1)
    await asyncio.wait_for(closing, 60)
    gate.open()
    with gate.change():
        pass


async def test_a_change_that_fails_is_not_under_way() -> None:
    gate = ChangeGate()
    with pytest.raises(ZeroDivisionError), gate.change():
        raise ZeroDivisionError
    await asyncio.wait_for(gate.close(), 60)


async def test_a_gate_may_be_closed_at_first() -> None:
    gate = ChangeGate(is_open=False)
    with pytest.raises(Refusal), gate.change():
        pass
