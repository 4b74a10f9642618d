"""`paceline serve --take-over` continues with the ports and the engines of a running server."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from paceline.runtime.engine.process.engine_process import EngineProcess
from paceline.runtime.gateway.keys.record import KeysUnusable
from paceline.runtime.gateway.settings import KeySettings
from paceline.runtime.serve.handover.taking_over import TakeOver, TakeOverFailed
from unit.engine.process.test_supervisor import is_alive, pids
from unit.gateway.conftest import until
from unit.gateway.fleet.fake_remote import FakeRemote
from unit.serve.handover.servers import begin, plan_for, serving


async def test_a_new_server_continues_with_engines_governors_and_replicas(
    folder: Path, remote: FakeRemote
) -> None:
    """Nothing is started anew, so what the governor has learned stays in the engine."""
    async with (
        FakeRemote() as added,
        serving(plan_for(folder / "a", remote.url)) as old,
        httpx.AsyncClient(base_url=old.gateway.admin_url, timeout=60) as admin,
    ):
        add = {"url": added.url, "name": "added", "key": "s3cret"}
        assert (await admin.post("/admin/replicas", json=add)).status_code == 201
        drain = {"name": "far", "draining": True}
        assert (await admin.patch("/admin/replicas", json=drain)).status_code == 200
        expected = {"engine-0": "ready", "far": "draining", "added": "ready"}
        await until(lambda: old.states() == expected)
        fix = {"draft_length": 3}
        changed = await admin.patch("/admin/governor?replica=engine-0", json=fix)
        assert changed.status_code == 200, changed.text
        taken = await begin(old)
        async with serving(plan_for(folder / "b", remote.url, old.ports), taken) as new:
            await asyncio.wait_for(old.task, 60)
            assert new.states() == expected
            assert new.ports == old.ports
            ((engine, _),) = pids(folder)
            assert is_alive(engine)
            shown = (await admin.get("/admin/governor?replica=engine-0")).json()
            assert shown["replicas"]["engine-0"]["draft_length"] == 3
            third = await begin(new)  # the new one can be replaced, too
            assert [one.name for one in third.offer.engines] == ["engine-0"]
            third.close()

            os.kill(engine, signal.SIGKILL)  # the restart has the new server's settings
            await until(lambda: len(pids(folder)) == 2)
            await until(lambda: new.states()["engine-0"] == "ready")
            shown = (await admin.get("/admin/governor?replica=engine-0")).json()
            assert shown["replicas"]["engine-0"]["draft_length"] == 3
            assert not (folder / "a").exists()
            assert (folder / "b" / "engine-0" / "e.sock").exists()
            engine = pids(folder)[-1][0]
        taken.close()
    assert not is_alive(engine)
    assert not (folder / "b" / "engine-0").exists()


async def test_settings_that_an_adopted_engine_does_not_have_are_named(
    folder: Path,
    remote: FakeRemote,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Also after a second hand-over; their values, which may be secrets, are in no log."""
    monkeypatch.setenv("HF_TOKEN", "s3cret")
    async with serving(plan_for(folder / "a", remote.url)) as first:
        taken = await begin(first)
        async with serving(plan_for(folder / "b", remote.url, first.ports), taken) as second:
            await asyncio.wait_for(first.task, 60)
            assert "engine-0 continues as it was started" not in caplog.text
            taken_again = await begin(second)
            monkeypatch.setenv("HF_TOKEN", "n3w")
            plan = plan_for(folder / "c", remote.url, second.ports)
            (engine,) = plan.engines
            command = replace(
                engine.command,
                arguments=(*engine.command.arguments, "--max-num-seqs", "8"),
                environment={"OMP_NUM_THREADS": "3"},
            )
            plan = replace(plan, engines=(replace(engine, command=command),))
            async with serving(plan, taken_again):
                await asyncio.wait_for(second.task, 60)
        for one in (taken, taken_again):
            one.close()
    assert "other values of --max-num-seqs, HF_TOKEN, OMP_NUM_THREADS." in caplog.text
    assert "s3cret" not in caplog.text
    assert "n3w" not in caplog.text


async def test_a_server_continues_if_its_successor_fails_before_it_serves(
    folder: Path, remote: FakeRemote
) -> None:
    async with serving(plan_for(folder / "a", remote.url)) as old:
        (await begin(old)).close()
        taken = await begin(old)
        plan = plan_for(folder / "b", remote.url, old.ports)
        unusable = replace(plan.gateway, keys=KeySettings(file=folder / "no-keys"))
        with pytest.raises(KeysUnusable):
            async with serving(replace(plan, gateway=unusable), taken):
                pass
        taken.close()
        async with httpx.AsyncClient(base_url=old.gateway.url, timeout=60) as http:
            ready = await http.get("/ready")
        assert (ready.status_code, "connection" in ready.headers) == (200, False)
        assert not old.task.done()
        ((engine, _),) = pids(folder)
        assert is_alive(engine)
    assert not is_alive(engine)


def test_without_a_running_server_there_is_nothing_to_take_over() -> None:
    assert TakeOver.begin("127.0.0.1", 9) is None


async def test_an_engine_of_another_model_is_left_to_the_old_server(
    folder: Path, remote: FakeRemote
) -> None:
    """The new server starts its own; the old one ends the other with its requests."""
    async with serving(plan_for(folder / "a", remote.url)) as old:
        taken = await begin(old)
        plan = plan_for(folder / "b", remote.url, old.ports, served_name="other")
        async with serving(plan, taken) as new:
            await asyncio.wait_for(old.task, 60)
            (first, _), (second, _) = pids(folder)
            assert (is_alive(first), is_alive(second)) == (False, True)
            assert new.states()["engine-0"] == "ready"
        taken.close()


async def test_an_engine_that_was_restarted_since_the_offer_is_not_taken(
    folder: Path, remote: FakeRemote
) -> None:
    """The new server fails and the old one, which has restarted the engine, continues."""
    async with serving(plan_for(folder / "a", remote.url)) as old:
        taken = await begin(old)
        os.kill(pids(folder)[0][0], signal.SIGKILL)
        await until(lambda: len(pids(folder)) == 2)
        await until(lambda: old.states()["engine-0"] == "ready")
        with pytest.raises(TakeOverFailed, match="engine-0 has ended or was restarted meanwhile"):
            async with serving(plan_for(folder / "b", remote.url, old.ports), taken):
                pass
        taken.close()
        assert old.states()["engine-0"] == "ready"
        assert is_alive(pids(folder)[1][0])
        assert not old.task.done()


async def test_a_server_whose_engine_restarts_after_a_crash_is_not_taken_over_from(
    folder: Path, remote: FakeRemote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both servers would start it: the old one again, and the new one, which was not offered it."""
    may_start = asyncio.Event()
    real_start = EngineProcess.start

    async def start(*arguments: Any) -> EngineProcess:
        await may_start.wait()
        return await real_start(*arguments)

    async with serving(plan_for(folder / "a", remote.url)) as old:
        monkeypatch.setattr(EngineProcess, "start", start)
        os.kill(pids(folder)[0][0], signal.SIGKILL)
        await until(lambda: old.states()["engine-0"] != "ready")
        with pytest.raises(TakeOverFailed, match=r"engine-0 is \w+; take over when it is ready"):
            await begin(old)
        may_start.set()
        await until(lambda: old.states()["engine-0"] == "ready")
        (await begin(old)).close()
        assert len(pids(folder)) == 2
