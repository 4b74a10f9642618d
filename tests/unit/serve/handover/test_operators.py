"""What operators do during a hand-over, or shortly before or after it, has its full effect."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from paceline.runtime.serve.handover.fleet_changes import apply_changes
from paceline.runtime.serve.handover.taking_over import TakeOverFailed
from unit.engine.process.test_supervisor import pids
from unit.gateway.conftest import until
from unit.gateway.fleet.fake_remote import FakeRemote
from unit.gateway.running_fleet import running
from unit.serve.handover.servers import begin, plan_for, serving

RESTART = {"name": "engine-0", "restart": True}


async def test_changes_after_the_offer_reach_the_new_server(
    folder: Path, remote: FakeRemote
) -> None:
    """What was drained or added before the offer, and is undone after it, stays undone."""
    async with (
        FakeRemote() as early,
        FakeRemote() as late,
        serving(plan_for(folder / "a", remote.url)) as old,
        httpx.AsyncClient(base_url=old.gateway.admin_url, timeout=60) as admin,
    ):
        await admin.post("/admin/replicas", json={"url": early.url, "name": "early"})
        await admin.patch("/admin/replicas", json={"name": "far", "draining": True})
        taken = await begin(old)
        for answer in (
            await admin.patch("/admin/governor?replica=engine-0", json={"draft_length": 3}),
            await admin.patch("/admin/replicas", json={"name": "far", "draining": False}),
            await admin.patch("/admin/replicas", json={"name": "engine-0", "draining": True}),
            await admin.delete("/admin/replicas?name=early"),
            await admin.post("/admin/replicas", json={"url": late.url, "name": "late"}),
        ):
            assert answer.is_success, answer.text
        async with serving(plan_for(folder / "b", remote.url, old.ports), taken) as new:
            expected = {"engine-0": "draining", "far": "ready", "late": "ready"}
            await until(lambda: new.states() == expected)
            third = await begin(new)
            assert third.offer.changes.governors["policies"] == {"engine-0": {"draft_length": 3}}
            third.close()
        taken.close()


async def test_a_restart_waits_until_the_old_server_has_completed_its_requests(
    folder: Path, remote: FakeRemote
) -> None:
    """The engine serves until then. During the restart, nothing can be taken over."""
    async with (
        serving(plan_for(folder / "a", remote.url)) as old,
        httpx.AsyncClient(base_url=old.gateway.url, timeout=60) as http,
    ):
        await until(lambda: old.states()["far"] == "ready")
        remote.mode = "hang"  # after the warm-up
        body = {"model": "tiny", "prompt": "x"}
        sending = asyncio.create_task(http.post("/v1/completions", json=body, timeout=60))
        await until(lambda: old.gateway.traffic.num_in_flight("far") == 1)
        remote.mode = "answer"
        taken = await begin(old)
        async with (
            serving(plan_for(folder / "b", remote.url, old.ports), taken) as new,
            httpx.AsyncClient(base_url=new.gateway.admin_url, timeout=60) as admin,
        ):
            assert (await admin.patch("/admin/replicas", json=RESTART)).status_code == 202
            again = await admin.patch("/admin/replicas", json=RESTART)
            assert again.json()["error"]["code"] == "replica_not_restartable"
            # sleep: a restart that does not wait has begun by then; on a slow machine less is seen
            await asyncio.sleep(0.5)
            assert not old.task.done()
            assert (new.states()["engine-0"], len(pids(folder))) == ("ready", 1)
            with pytest.raises(TakeOverFailed, match="engine-0 is being restarted"):
                await begin(new)
            sending.cancel()
            await asyncio.wait_for(old.task, 60)
            await until(lambda: len(pids(folder)) == 2)
            await until(lambda: new.states()["engine-0"] == "ready")
            (await begin(new)).close()
        taken.close()


async def test_a_restart_that_begins_after_the_offer_refuses_the_new_server(
    folder: Path, remote: FakeRemote
) -> None:
    """The old server continues, and an engine that an operator has drained stays drained.

    The reason depends on how far the restart is when the new server wants the engine.
    """
    reasons = "(is being restarted; take over when|has ended or was restarted meanwhile)"
    async with (
        serving(plan_for(folder / "a", remote.url)) as old,
        httpx.AsyncClient(base_url=old.gateway.admin_url, timeout=60) as admin,
    ):
        taken = await begin(old)
        drain = {"name": "engine-0", "draining": True}
        await admin.patch("/admin/replicas", json=RESTART)
        await admin.patch("/admin/replicas", json=drain)
        with pytest.raises(TakeOverFailed, match=f"engine-0 {reasons}"):
            async with serving(plan_for(folder / "b", remote.url, old.ports), taken):
                pass
        taken.close()
        await until(lambda: len(pids(folder)) == 2)
        await until(lambda: old.states()["engine-0"] == "draining")
        (await begin(old)).close()  # the restart is over
        assert old.states()["engine-0"] == "draining"
        assert (await admin.patch("/admin/replicas", json={**drain, "draining": False})).is_success
        assert old.states()["engine-0"] == "ready"


async def test_a_remote_replica_is_not_restarted_here(folder: Path, remote: FakeRemote) -> None:
    async with serving(plan_for(folder / "a", remote.url)) as server:
        async with httpx.AsyncClient(base_url=server.gateway.admin_url, timeout=60) as admin:
            answers: list[Any] = [
                await admin.patch("/admin/replicas", json={"name": name, "restart": restart})
                for name, restart in (("far", True), ("nobody", True), ("engine-0", False))
            ]
        assert [answer.status_code for answer in answers] == [409, 404, 400]
        assert "'far' is a remote replica: drain it" in answers[0].text


async def test_replicas_that_fill_more_than_one_packet_are_taken_over(
    folder: Path, remote: FakeRemote
) -> None:
    """Linux takes packets of up to 208 KiB by default."""
    fields = {"model": "\N{GRINNING FACE}" * 256, "revision": "r" * 100, "key": "k" * 4096}
    async with (
        serving(plan_for(folder / "a", remote.url)) as old,
        httpx.AsyncClient(base_url=old.gateway.admin_url, timeout=60) as admin,
    ):
        names = {f"replica-{number}." + "n" * 80 for number in range(50)}
        for number, name in enumerate(names):
            body = {"url": f"http://127.0.0.1:{number + 1}", "name": name, **fields}
            assert (await admin.post("/admin/replicas", json=body)).status_code == 201
        taken = await begin(old)
        async with serving(plan_for(folder / "b", remote.url, old.ports), taken) as new:
            await until(lambda: set(new.states()) == {"engine-0", "far", *names})
            await asyncio.wait_for(old.task, 60)
        taken.close()


async def test_an_entry_that_is_not_accepted_any_more_is_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An older version accepted line ends in a model id, and blanks in a host."""
    added = [
        {"url": "http://a b:1", "name": "blank"},
        {"url": "http://a:1", "model": "m\r\nx"},
        {"url": "http://127.0.0.1:1", "name": "right"},
    ]
    async with running() as it:
        apply_changes(it.gateway.fleet, {"added": added, "drained": ["right"]})
        assert [replica.name for replica in it.gateway.fleet.replicas()] == ["right"]
    assert caplog.text.count("is not taken over") == 2
