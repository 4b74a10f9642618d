"""Do several processes serve one data port as one gateway would? Real processes and sockets."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from paceline.cli import main
from paceline.gateway import RunningGateway, WorkerFailed, serve_gateway
from paceline.gateway.admission_settings import AdmissionSettings
from paceline.gateway.failure_settings import FailureSettings
from paceline.gateway.fleet.entry import ReplicaEntry
from paceline.gateway.fleet.settings import FleetSettings
from paceline.gateway.keys.settings import KeySettings
from paceline.gateway.workers import worker_process
from paceline.gateway.workers.totals import Totals
from paceline.gateway.workers.worker_process import WorkerProcess
from paceline.standin import Record, SpawnedStandIn, read_ledger, spawn_standin

from ..conftest import FixedReplicas, chat, until  # noqa: TID252
from .conftest import WORKERS, workers

CHAT = "/v1/chat/completions"


@dataclass
class Running:
    """A gateway of two workers in front of one simulated replica."""

    gateway: RunningGateway
    standin: SpawnedStandIn
    ledger: Path
    http: httpx.AsyncClient
    admin: httpx.AsyncClient

    async def metric(self, name: str) -> float:
        for line in (await self.admin.get("/metrics")).text.splitlines():
            if line.startswith(name + " "):
                return float(line.rpartition(" ")[2])
        raise KeyError(name)

    async def until_completed(self, number: int) -> None:
        """A request counts a moment after its client has read the end."""
        name = 'paceline_requests_total{outcome="completed"}'
        async with asyncio.timeout(10):
            while (found := await self.metric(name)) != number:
                assert found < number
                await asyncio.sleep(0.05)

    async def ask(self, max_tokens: int = 4) -> int:
        body = chat(model="known", max_tokens=max_tokens, stream=True)
        return (await self.http.post(CHAT, json=body)).status_code

    async def ask_many(self, number: int, max_tokens: int = 4) -> list[int]:
        return await asyncio.gather(*(self.ask(max_tokens) for _ in range(number)))

    async def until_ready(self) -> None:
        async with asyncio.timeout(15):
            while (await self.http.get("/ready")).status_code != 200:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    async def until_removed(self) -> None:
        async with asyncio.timeout(15):
            while (await self.admin.get("/admin/replicas")).json()["replicas"]:  # noqa: ASYNC110
                await asyncio.sleep(0.02)

    def records(self) -> list[Record]:
        return list(read_ledger(self.ledger))


@asynccontextmanager
async def serving(folder: Path, *flags: str, **changes: object) -> AsyncIterator[Running]:
    ledger = folder / "ledger.jsonl"
    with spawn_standin("--model", "known", "--ledger", str(ledger), *flags) as standin:
        fleet = FleetSettings(
            entries=(ReplicaEntry(url=standin.url, name="r0", key="s3cret"),),
            poll_period_s=0.1,
            load_period_s=3600,
            warm_up=False,
        )
        settings = replace(WORKERS, fleet=fleet, **changes)
        limits = httpx.Limits(max_keepalive_connections=0)
        async with (
            serve_gateway(settings, FixedReplicas([])) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=30, limits=limits) as http,
            httpx.AsyncClient(base_url=gateway.admin_url, timeout=10) as admin,
        ):
            running = Running(gateway, standin, ledger, http, admin)
            await running.until_ready()
            yield running


def most_at_once(records: list[Record]) -> int:
    """By the replica's own clock."""
    changes = [(one.begun_s, 1) for one in records]
    changes += [(one.ended_s, -1) for one in records if one.ended_s is not None]
    most = now = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    return most


async def test_each_worker_serves(tmp_path: Path) -> None:
    """What one that stands still would take goes to the other."""
    async with serving(tmp_path) as it:
        processes = workers()
        assert len(processes) == 2
        for process in processes:
            process.suspend()
            assert await it.ask_many(5) == [200] * 5
            process.resume()
        await it.until_completed(10)
        assert [(await it.http.get(path)).status_code for path in ("/health", "/ready")] == [
            200,
            200,
        ]


async def test_the_places_of_a_replica_are_shared(tmp_path: Path) -> None:
    """Not four for each."""
    admission = AdmissionSettings(max_in_flight=4)
    async with serving(tmp_path, "--tpot-ms", "10", admission=admission) as it:
        assert await it.ask_many(24, max_tokens=10) == [200] * 24
        assert most_at_once(it.records()) == 4


async def test_a_worker_that_alone_has_requests_uses_all_places(tmp_path: Path) -> None:
    admission = AdmissionSettings(max_in_flight=4)
    async with serving(tmp_path, "--tpot-ms", "10", admission=admission) as it:
        idle, _ = workers()
        idle.suspend()
        connections = [await connect(it.gateway) for _ in range(12)]  # all to the other one
        idle.resume()
        body = json.dumps(chat(model="known", max_tokens=20, stream=True)).encode()
        for _, writer in connections:
            writer.write(
                b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n"
                b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%s"
                % (len(body), body)
            )
        for reader, writer in connections:
            assert b"data: [DONE]" in await reader.read()
            writer.close()
        assert most_at_once(it.records()) == 4


async def connect(
    gateway: RunningGateway,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that a worker has taken, and keeps."""
    reader, writer = await asyncio.open_connection(gateway.host, gateway.port)
    writer.write(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert b"alive" in await reader.readuntil(b"}")
    return reader, writer


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
    with spawn_standin("--model", "known", "--tpot-ms", "50", "--eos-every-tokens", "0") as standin:
        fleet = FleetSettings(entries=(ReplicaEntry(url=standin.url, name="r0"),), warm_up=False)
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


async def test_what_the_replica_is_told_is_told_to_nobody_else(tmp_path: Path) -> None:
    """Its key is in no command line and no environment."""
    async with serving(tmp_path, "--api-key", "s3cret") as it:
        assert await it.ask() == 200
        for process in workers():
            assert "s3cret" not in " ".join(process.cmdline())
            assert "s3cret" not in str(process.environ())


async def test_removing_a_replica_waits_for_the_streams_of_all_workers(tmp_path: Path) -> None:
    async with serving(tmp_path, "--tpot-ms", "20") as it:
        asking = [asyncio.create_task(it.ask(max_tokens=50)) for _ in range(12)]
        await until(lambda: it.gateway.ledger.num_in_flight("r0") == 12, within_s=5)
        answer = (await it.admin.delete("/admin/replicas?name=r0")).json()
        assert answer == {"name": "r0", "state": "draining", "in_flight": 12}
        await it.until_removed()
        assert all(record.ending == "finished" for record in it.records())
        assert await asyncio.gather(*asking) == [200] * 12
        while (status := await it.ask()) == 503:  # noqa: ASYNC110 - until the workers know
            await asyncio.sleep(0.02)
        assert status == 404  # no such model any more


async def test_an_idle_replica_is_not_called_removed_before_the_workers_know(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as it:
        answer = (await it.admin.delete("/admin/replicas?name=r0")).json()
        assert answer == {"name": "r0", "state": "draining", "in_flight": 1}
        await it.until_removed()


async def test_a_hung_replica_is_told_to_whoever_restarts_engines(tmp_path: Path) -> None:
    hung: list[str] = []
    failures = FailureSettings(silence_s=0.3, first_silence_s=0.3, max_attempts=1, max_open_s=30)
    with spawn_standin("--model", "known", "--tpot-ms", "10") as standin:
        fleet = FleetSettings(entries=(ReplicaEntry(url=standin.url, name="r0"),), warm_up=False)
        settings = replace(WORKERS, fleet=fleet, failures=failures)
        async with (
            serve_gateway(settings, FixedReplicas([]), on_hung=hung.append) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=30) as http,
            httpx.AsyncClient(base_url=gateway.admin_url, timeout=30) as admin,
        ):
            await until(lambda: gateway.fleet.replicas()[0].state == "ready", within_s=10)
            await asyncio.sleep(0.1)
            body = chat(model="known", max_tokens=200, stream=True)
            asking = asyncio.create_task(http.post(CHAT, json=body))
            await until(lambda: gateway.ledger.num_in_flight("r0") == 1, within_s=5)
            standin.stop()
            await until(lambda: hung == ["r0"], within_s=10)
            await asking
            states = gateway.ledger.breaker_states
            await until(lambda: states()["r0"].value == "open")
            assert 'paceline_breaker_state{replica="r0"} 2.0' in (await admin.get("/metrics")).text
            standin.resume()


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


async def test_keys_that_are_made_and_revoked_reach_all_workers(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    assert run_keys("create", "--file", file, "--tenant", "first").startswith("pl-")
    async with serving(tmp_path, keys=KeySettings(file=file)) as it:
        key = run_keys("create", "--file", file, "--tenant", "second")
        bearer = {"authorization": f"Bearer {key}"}

        async def statuses() -> set[int]:
            answers = [await it.http.get("/v1/models", headers=bearer) for _ in range(10)]
            return {answer.status_code for answer in answers}

        async def both(expected: int) -> None:
            """Each worker looks at the file once a second at most, when it is asked."""
            await asyncio.sleep(1.1)
            for process in workers():
                process.suspend()
                assert await statuses() == {expected}
                process.resume()

        await both(200)
        run_keys("revoke", "--file", file, key.split("-")[1])
        await both(401)


def run_keys(*arguments: object) -> str:
    done = CliRunner().invoke(main, ["keys", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.stdout.strip()


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
        it.standin.kill()
        assert await it.ask() == 503
    assert "paceline: WARNING: request " in capfd.readouterr().err
