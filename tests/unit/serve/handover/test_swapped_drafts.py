"""Drafts of real processes are swapped, and the next server continues with them.

The engines are `fake_engine.py`; gateway, supervisors, guards and the hand-over are real.
tests/chaos/upgrades has mock engines under load.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from paceline.runtime.gateway.admin import draft_roll
from paceline.runtime.serve.handover.taking_over import TakeOverFailed
from unit.engine.process.test_supervisor import pids
from unit.gateway.conftest import until
from unit.gateway.fleet.fake_remote import FakeRemote
from unit.serve.handover.servers import Server, begin, plan_for, serving, swappable


@pytest.fixture(autouse=True)
def short_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draft_roll, "DRAFT_WATCH_S", 0.3)


async def drafts(server: Server) -> list[str]:
    """What the engines run with."""
    async with httpx.AsyncClient(base_url=server.gateway.admin_url, timeout=60) as admin:
        shown = (await admin.get("/admin/draft")).json()["replicas"]
    return [one["draft"] for one in shown]


async def swap(server: Server, draft: str, **more: object) -> dict[str, Any]:
    """The swap once it has ended."""
    async with httpx.AsyncClient(base_url=server.gateway.admin_url, timeout=60) as admin:
        answer = await admin.post("/admin/draft", json={"draft": draft, **more})
        assert answer.status_code == 202, answer.text
        await until(lambda: not server.gateway.is_swapping_draft, within_s=60)
        ended: dict[str, Any] = (await admin.get("/admin/draft")).json()["swap"]
    return ended


async def test_engines_restart_with_the_new_draft_one_by_one(
    folder: Path, remote: FakeRemote
) -> None:
    """After a crash, an engine starts with the draft that it is meant to have."""
    async with serving(swappable(plan_for(folder / "a", remote.url, num_engines=2))) as server:
        assert await drafts(server) == ["old", "old"]
        done = await swap(server, "new")
        assert (done["state"], await drafts(server)) == ("completed", ["new", "new"])
        assert done["why"] == "draft model new: as configured"
        assert len(pids(folder)) == 4
        os.kill(pids(folder)[-1][0], signal.SIGKILL)
        await until(lambda: len(pids(folder)) == 5, within_s=60)
        await until(lambda: server.states()["engine-1"] == "ready", within_s=60)
        assert await drafts(server) == ["new", "new"]


async def test_an_engine_that_does_not_start_gets_its_draft_back(
    folder: Path, remote: FakeRemote
) -> None:
    async with (
        serving(swappable(plan_for(folder / "a", remote.url, num_engines=2))) as server,
        httpx.AsyncClient(base_url=server.gateway.admin_url, timeout=60) as admin,
    ):
        refused = await admin.post("/admin/draft", json={"draft": "unfit"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "draft_refused")
        stopped = await swap(server, "broken")
        assert [one["phase"] for one in stopped["replicas"]] == ["restored", "waiting"]
        assert stopped["reason"].startswith(
            "engine-0: it did not start with the new draft: ended with exit code 1: ValueError: no "
            "memory for it"
        )
        assert await drafts(server) == ["old", "old"]
        assert [server.states()[name] for name in ("engine-0", "engine-1")] == ["ready", "ready"]


async def test_the_next_server_restarts_its_engines_with_the_swapped_draft(
    folder: Path, remote: FakeRemote
) -> None:
    async with serving(swappable(plan_for(folder / "a", remote.url))) as old:
        await swap(old, "new", allow_outage=True)
        taken = await begin(old)
        plan = swappable(plan_for(folder / "b", remote.url, old.ports))
        async with (
            serving(plan, taken) as new,
            httpx.AsyncClient(base_url=new.gateway.admin_url, timeout=60) as admin,
        ):
            assert await drafts(new) == ["new"]
            taken_over = (await admin.get("/admin/replicas")).json()["replicas"][0]
            assert taken_over["version"] == "0.32.0"  # read by the old server
            restart = {"name": "engine-0", "restart": True}
            assert (await admin.patch("/admin/replicas", json=restart)).status_code == 202
            await until(lambda: len(pids(folder)) == 3, within_s=60)
            await until(lambda: new.states()["engine-0"] == "ready", within_s=60)
            assert await drafts(new) == ["new"]
            (shown, _) = (await admin.get("/admin/replicas")).json()["replicas"]
            assert (shown["restarts"], shown["planned_restarts"]) == (2, 2)  # one in each server
            third = await begin(new)  # and the one after it
            assert third.offer.engines[0].swapped_draft == "new"
            third.close()
        taken.close()


async def test_a_swapped_draft_that_is_gone_gives_way_to_that_of_the_settings(
    folder: Path, remote: FakeRemote, caplog: pytest.LogCaptureFixture
) -> None:
    """The engine runs on with it until it is restarted."""
    async with serving(swappable(plan_for(folder / "a", remote.url))) as old:
        await swap(old, "new", allow_outage=True)
        taken = await begin(old)
        plan = plan_for(folder / "b", remote.url, old.ports)  # it can plan no draft
        async with serving(plan, taken) as new:
            assert await drafts(new) == ["new"]
        taken.close()
    assert "engine engine-0 runs with the draft new, which was swapped in" in caplog.text


async def test_nothing_is_taken_over_during_a_swap(
    folder: Path, remote: FakeRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by a new server, nor by one that has its offer already."""
    monkeypatch.setattr(draft_roll, "DRAFT_WATCH_S", 1000.0)
    async with (
        serving(swappable(plan_for(folder / "a", remote.url))) as old,
        httpx.AsyncClient(base_url=old.gateway.admin_url, timeout=60) as admin,
    ):
        taken = await begin(old)
        body = {"draft": "new", "allow_outage": True}
        assert (await admin.post("/admin/draft", json=body)).status_code == 202
        with pytest.raises(TakeOverFailed, match="the draft is being swapped"):
            async with serving(swappable(plan_for(folder / "b", remote.url, old.ports)), taken):
                pass
        taken.close()
        with pytest.raises(TakeOverFailed, match="the draft is being swapped"):
            await begin(old)
        await until(lambda: old.states()["engine-0"] == "ready", within_s=60)
        monkeypatch.setattr(draft_roll, "DRAFT_WATCH_S", 0.0)
        await until(lambda: not old.gateway.is_swapping_draft, within_s=60)
        assert await drafts(old) == ["new"]
        (await begin(old)).close()
