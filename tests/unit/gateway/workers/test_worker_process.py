"""Start, exit, crash, hang and restart of worker processes. Real processes and sockets."""

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
import psutil
import pytest
from polling import turns_of_the_event_loop

from paceline.runtime.gateway import RunningGateway, WorkerFailed, serve_gateway
from paceline.runtime.gateway.settings import FleetSettings, KeySettings, ReplicaEntry
from paceline.runtime.gateway.workers import worker_process
from paceline.runtime.gateway.workers.worker_process import WorkerProcess, explain_exit
from paceline.runtime.gateway.workers.worker_totals import WorkerTotals
from paceline.testing.mock_vllm import spawn_mock_vllm
from unit.gateway.conftest import FixedReplicas, chat, until
from unit.gateway.workers.conftest import WORKERS, workers
from unit.gateway.workers.served import CHAT, serving


async def test_a_killed_worker_is_restarted_and_its_metrics_are_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path, "--tpot-ms", "20") as it:
        assert await it.send_many(20) == [200] * 20
        await it.until_completed(20)
        victim = workers()[0]
        victim.kill()
        assert await it.send_many(10) == [200] * 10
        await it.until_completed(30)
        await until(lambda: "was killed by SIGKILL; 0 requests in flight" in caplog.text)
        await until(lambda: len(workers()) == 2)
        assert victim.pid not in [process.pid for process in workers()]
        workers()[0].suspend()  # whichever it is, the other one serves
        assert await it.send() == 200
        workers()[0].resume()
        await it.until_completed(31)
        assert await it.metric("paceline_worker_restarts_total") == 1


async def test_requests_of_a_killed_worker_are_no_longer_in_flight(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path, "--tpot-ms", "50") as it:
        sending = [asyncio.create_task(it.send(max_tokens=100)) for _ in range(8)]
        await until(lambda: it.gateway.traffic.num_in_flight("r0") == 8)
        for process in workers():
            process.kill()
        results = await asyncio.gather(*sending, return_exceptions=True)
        assert [type(one) for one in results] == [httpx.RemoteProtocolError] * 8
        await until(lambda: it.gateway.traffic.num_in_flight("r0") == 0)
        lost = [int(r.getMessage().split(";")[1].split()[0]) for r in caplog.records]
        assert sum(lost) == 8
        await until(lambda: len(workers()) == 2)
        assert await it.send() == 200


async def test_a_worker_ignores_signals_and_exits_when_its_parent_stops_it(
    tmp_path: Path,
) -> None:
    """Ctrl-C reaches all processes of a terminal, a service manager's SIGTERM all of a group."""
    async with serving(tmp_path) as it:
        pids = [process.pid for process in workers()]
        for process in workers():
            assert os.getsid(process.pid) != os.getsid(0)
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGTERM)
        for _ in range(3):
            assert await it.send_many(10) == [200] * 10
        assert [process.pid for process in workers()] == pids
    assert workers() == []


async def test_a_cancelled_drain_ends_streams_with_an_error_event() -> None:
    """After a second signal the gateway no longer waits, but every stream still gets its error."""
    with spawn_mock_vllm(
        "--model", "known", "--tpot-ms", "50", "--eos-every-tokens", "0"
    ) as mock_vllm:
        fleet = FleetSettings(entries=(ReplicaEntry(url=mock_vllm.url, name="r0"),), warm_up=False)
        patient = replace(WORKERS.failures, replica_wait_s=60)  # until the worker knows the replica
        settings = replace(WORKERS, fleet=fleet, failures=patient, drain_timeout_s=300)
        running: asyncio.Future[RunningGateway] = asyncio.get_running_loop().create_future()
        must_stop = asyncio.Event()

        async def serve_a_while() -> None:
            async with serve_gateway(settings, FixedReplicas([])) as gateway:
                running.set_result(gateway)
                await must_stop.wait()

        serving_task = asyncio.create_task(serve_a_while())
        async with asyncio.timeout(60), httpx.AsyncClient(timeout=60) as http:
            gateway = await running
            await until(lambda: gateway.fleet.replicas()[0].state == "ready")
            body = chat(model="known", max_tokens=1000, stream=True)
            sending = [
                asyncio.create_task(http.post(gateway.url + CHAT, json=body)) for _ in "1234"
            ]
            await until(lambda: gateway.traffic.num_in_flight("r0") == 4)
            must_stop.set()
            await turns_of_the_event_loop()
            assert not serving_task.done()
            serving_task.cancel()
            answers = await asyncio.gather(*sending)
            await asyncio.gather(serving_task, return_exceptions=True)
        assert [answer.text.count("server_stopping") for answer in answers] == [1] * 4
        assert workers() == []
        assert not any(
            "_exchange_periodically" in repr(task.get_coro()) for task in asyncio.all_tasks()
        )


@pytest.mark.parametrize("content", [None, "nonsense\n"])
async def test_unusable_keys_prevent_the_start(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "keys"
    if content is not None:
        file.write_text(content)
    message = "does not exist" if content is None else "line 1: it is not a JSON object"
    settings = replace(WORKERS, keys=KeySettings(file=file))
    with pytest.raises(WorkerFailed, match=f"cannot serve: .*{message}"):
        async with serve_gateway(settings, FixedReplicas([])):
            pass
    assert workers() == []


async def test_a_worker_that_exits_at_once_prevents_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(
        WorkerFailed,
        match="a worker process of the data port ended with exit code 1 before it served",
    ):
        async with serve_gateway(WORKERS, FixedReplicas([])):
            pass


async def test_a_failed_restart_of_a_worker_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The other worker serves meanwhile."""
    python = sys.executable
    async with serving(tmp_path) as it:
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
        workers()[0].kill()
        await until(lambda: caplog.text.count("could not be started") >= 2)
        assert "restarting in 0.4 s" in caplog.text
        assert await it.send_many(5) == [200] * 5
        monkeypatch.setattr(sys, "executable", python)
        await until(lambda: len(workers()) == 2)


async def test_a_metrics_request_does_not_wait_for_a_dead_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise every scrape would wait until its timeout."""
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with socket.socket() as listener:
        worker = await WorkerProcess.start(0, WORKERS, listener, WorkerTotals(1))
        sending = asyncio.create_task(worker.refresh_metrics())
        assert await worker.run() == 1
        async with asyncio.timeout(60):
            await sending
            await worker.refresh_metrics()


async def test_a_cancelled_worker_has_ended_and_was_reaped() -> None:
    """Otherwise the event loop could close before the end of its child is reported."""
    with socket.socket() as listener:
        worker = await WorkerProcess.start(0, WORKERS, listener, WorkerTotals(1))
        running = asyncio.create_task(worker.run())
        await asyncio.sleep(0)  # until it listens
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert not psutil.pid_exists(worker.pid)


async def test_a_hung_worker_is_killed_and_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path) as it:
        hanging, _ = workers()
        hanging.suspend()
        with monkeypatch.context() as patched:
            patched.setattr(worker_process, "_METRICS_PERIOD_S", 0.2)
            await until(lambda: "hangs; killing it" in caplog.text)
        await until(lambda: "was killed by SIGKILL; 0 requests in flight" in caplog.text)
        await until(lambda: len(workers()) == 2)
        assert hanging not in workers()
        assert await it.send_many(5) == [200] * 5


async def test_a_slow_start_is_not_taken_for_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker answers no messages while it imports its modules."""
    monkeypatch.setattr(worker_process, "_METRICS_PERIOD_S", 0.02)

    async def start_slowly() -> None:
        await until(lambda: len(workers()) == 2)
        slow = workers()[0]
        slow.suspend()
        # sleep: longer than seven unanswered requests take; a longer pause has the same result
        await asyncio.sleep(1)
        monkeypatch.undo()
        slow.resume()

    starting = asyncio.create_task(start_slowly())
    async with serve_gateway(WORKERS, FixedReplicas([])):
        await starting
        assert len(workers()) == 2


async def test_a_worker_that_does_not_serve_in_time_prevents_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_process, "WORKER_START_TIMEOUT_S", 0.1)
    with pytest.raises(WorkerFailed, match=r"cannot serve: it did not serve within 0.1 s"):
        async with serve_gateway(WORKERS, FixedReplicas([])):
            pass
    assert workers() == []


async def test_a_worker_logs_to_the_stderr_of_its_parent(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    logging.getLogger("paceline").debug("sets up the fixture")
    async with serving(tmp_path) as it:
        it.mock_vllm.kill()
        assert await it.send() == 503
        written = ""

        def has_logged() -> bool:
            nonlocal written
            written += capfd.readouterr().err
            return "paceline: WARNING: request " in written

        await until(has_logged)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (1, "ended with exit code 1"),
        (-9, "was killed by SIGKILL"),
        (-99, "was killed by signal 99"),
    ],
)
def test_exit_codes_in_words(code: int, words: str) -> None:
    assert explain_exit(code) == words
