"""How do worker processes start, end, die, hang, and come again? Real processes and sockets."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from paceline.gateway import RunningGateway, WorkerFailed, serve_gateway
from paceline.gateway.settings import FleetSettings, KeySettings, ReplicaEntry
from paceline.gateway.workers import worker_process
from paceline.gateway.workers.totals import Totals
from paceline.gateway.workers.worker_process import WorkerProcess
from paceline.mock_vllm import spawn_mock_vllm
from unit.gateway.conftest import FixedReplicas, chat, until
from unit.gateway.workers.conftest import WORKERS, workers
from unit.gateway.workers.served import CHAT, serving


async def test_a_killed_worker_comes_back_and_takes_no_count_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path, "--tpot-ms", "20") as it:
        assert await it.ask_many(20) == [200] * 20
        await it.until_completed(20)
        victim = workers()[0]
        victim.kill()
        assert await it.ask_many(10) == [200] * 10
        await it.until_completed(30)
        await until(lambda: "was killed by SIGKILL; 0 requests in flight" in caplog.text)
        await until(lambda: len(workers()) == 2, within_s=10)
        assert victim.pid not in [process.pid for process in workers()]
        workers()[0].suspend()  # whichever it is: the new one serves, or the old one does
        assert await it.ask() == 200
        workers()[0].resume()
        await it.until_completed(31)
        assert await it.metric("paceline_worker_restarts_total") == 1


async def test_what_a_killed_worker_held_is_held_no_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path, "--tpot-ms", "50") as it:
        asking = [asyncio.create_task(it.ask(max_tokens=100)) for _ in range(8)]
        await until(lambda: it.gateway.ledger.num_in_flight("r0") == 8, within_s=5)
        for process in workers():
            process.kill()
        told = await asyncio.gather(*asking, return_exceptions=True)
        assert [type(one) for one in told] == [httpx.RemoteProtocolError] * 8
        await until(lambda: it.gateway.ledger.num_in_flight("r0") == 0)
        lost = [int(r.getMessage().split(";")[1].split()[0]) for r in caplog.records]
        assert sum(lost) == 8
        await until(lambda: len(workers()) == 2, within_s=10)
        assert await it.ask() == 200


async def test_a_worker_ends_when_its_head_says_so_and_not_by_other_signals(
    tmp_path: Path,
) -> None:
    """Ctrl-C reaches all of a terminal's processes, a service manager's SIGTERM all of a group."""
    async with serving(tmp_path) as it:
        pids = [process.pid for process in workers()]
        for process in workers():
            assert os.getsid(process.pid) != os.getsid(0)
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.3)
        assert await it.ask_many(10) == [200] * 10
        assert [process.pid for process in workers()] == pids
    assert workers() == []


async def test_a_drain_that_is_given_up_tells_the_clients() -> None:
    """A second signal: nobody waits for the requests, but none of them ends without a word."""
    with spawn_mock_vllm(
        "--model", "known", "--tpot-ms", "50", "--eos-every-tokens", "0"
    ) as mock_vllm:
        fleet = FleetSettings(entries=(ReplicaEntry(url=mock_vllm.url, name="r0"),), warm_up=False)
        settings = replace(WORKERS, fleet=fleet, drain_timeout_s=30)
        running: asyncio.Future[RunningGateway] = asyncio.get_running_loop().create_future()
        must_stop = asyncio.Event()

        async def serve_a_while() -> None:
            async with serve_gateway(settings, FixedReplicas([])) as gateway:
                running.set_result(gateway)
                await must_stop.wait()

        serving_task = asyncio.create_task(serve_a_while())
        async with asyncio.timeout(30), httpx.AsyncClient(timeout=30) as http:
            gateway = await running
            await until(lambda: gateway.fleet.replicas()[0].state == "ready", within_s=10)
            await asyncio.sleep(0.2)  # until the workers know
            body = chat(model="known", max_tokens=1000, stream=True)
            asking = [asyncio.create_task(http.post(gateway.url + CHAT, json=body)) for _ in "1234"]
            await until(lambda: gateway.ledger.num_in_flight("r0") == 4, within_s=5)
            must_stop.set()
            await asyncio.sleep(0.5)
            assert not serving_task.done()
            serving_task.cancel()
            answers = await asyncio.gather(*asking)
            await asyncio.gather(serving_task, return_exceptions=True)
        assert [answer.text.count("server_stopping") for answer in answers] == [1] * 4
        assert workers() == []
        assert not any("_tell_often" in repr(task.get_coro()) for task in asyncio.all_tasks())


@pytest.mark.parametrize("content", [None, "nonsense\n"])
async def test_keys_that_cannot_be_used_refuse_the_start(
    tmp_path: Path, content: str | None
) -> None:
    file = tmp_path / "keys"
    if content is not None:
        file.write_text(content)
    said = "does not exist" if content is None else "line 1: it is not a JSON object"
    settings = replace(WORKERS, keys=KeySettings(file=file))
    with pytest.raises(WorkerFailed, match=f"cannot serve: .*{said}"):
        async with serve_gateway(settings, FixedReplicas([])):
            pass
    assert workers() == []


async def test_a_worker_that_cannot_even_begin_refuses_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(
        WorkerFailed, match="a process of the data port ended with exit code 1 before it served"
    ):
        async with serve_gateway(WORKERS, FixedReplicas([])):
            pass


async def test_a_worker_that_cannot_be_started_again_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The other one serves meanwhile."""
    python = sys.executable
    async with serving(tmp_path) as it:
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
        workers()[0].kill()
        await until(lambda: caplog.text.count("could not be started") >= 2, within_s=5)
        assert "next start in 0.4 s" in caplog.text
        assert await it.ask_many(5) == [200] * 5
        monkeypatch.setattr(sys, "executable", python)
        await until(lambda: len(workers()) == 2, within_s=10)


async def test_a_worker_that_is_gone_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a scrape would, until its time is up."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with socket.socket() as listener:
        worker = await WorkerProcess.start(0, WORKERS, listener, Totals(1))
        asking = asyncio.create_task(worker.ask())
        assert await worker.run(on_hung=print) == 1
        async with asyncio.timeout(1):
            await asking
            await worker.ask()


async def test_a_worker_that_hangs_is_killed_and_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as it:
        hanging, _ = workers()
        hanging.suspend()
        with monkeypatch.context() as patched:
            patched.setattr(worker_process, "_ASK_PERIOD_S", 0.2)
            await until(lambda: "hangs and is killed" in caplog.text, within_s=10)
        await until(lambda: "was killed by SIGKILL; 0 requests in flight" in caplog.text)
        await until(lambda: len(workers()) == 2, within_s=10)
        assert hanging not in workers()
        assert await it.ask_many(5) == [200] * 5


async def test_a_worker_that_starts_slowly_does_not_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers nothing while it imports."""
    monkeypatch.setattr(worker_process, "_ASK_PERIOD_S", 0.02)

    async def start_slowly() -> None:
        await until(lambda: len(workers()) == 2, within_s=10)
        slow = workers()[0]
        slow.suspend()
        await asyncio.sleep(1)  # seven questions take 0.2 s
        monkeypatch.undo()
        slow.resume()

    starting = asyncio.create_task(start_slowly())
    async with serve_gateway(WORKERS, FixedReplicas([])):
        await starting
        assert len(workers()) == 2


async def test_a_worker_that_does_not_come_to_serve_refuses_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_process, "_START_TIMEOUT_S", 0.1)
    with pytest.raises(WorkerFailed, match=r"cannot serve: it did not serve within 0.1 s"):
        async with serve_gateway(WORKERS, FixedReplicas([])):
            pass
    assert workers() == []


async def test_the_log_of_a_worker_is_where_ours_is(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    logging.getLogger("paceline").debug("so that the fixture is set up")
    async with serving(tmp_path) as it:
        it.mock_vllm.kill()
        assert await it.ask() == 503
    assert "paceline: WARNING: request " in capfd.readouterr().err
