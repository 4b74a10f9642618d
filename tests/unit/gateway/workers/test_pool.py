"""Replicas and keys are the same in all worker processes. Real processes and sockets.

Tests that change neither share a gateway in `test_shared_slots.py`.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import httpx
from click.testing import CliRunner

from paceline.cli import main
from paceline.runtime.gateway import serve_gateway
from paceline.runtime.gateway.settings import (
    FailureSettings,
    FleetSettings,
    KeySettings,
    ReplicaEntry,
)
from paceline.testing.mock_vllm import spawn_mock_vllm
from unit.gateway.conftest import FixedReplicas, chat, until
from unit.gateway.workers.conftest import WORKERS, workers
from unit.gateway.workers.served import CHAT, serving


async def test_removing_a_replica_waits_for_the_streams_of_all_workers(tmp_path: Path) -> None:
    """Streams of four seconds, so that all are in flight at once on a busy machine too."""
    async with serving(tmp_path, "--tpot-ms", "20", "--eos-every-tokens", "0") as it:
        sending = [asyncio.create_task(it.send(max_tokens=200)) for _ in range(12)]
        await until(lambda: it.gateway.traffic.num_in_flight("r0") == 12)
        answer = (await it.admin.delete("/admin/replicas?name=r0")).json()
        assert answer == {"name": "r0", "state": "draining", "in_flight": 12}
        await it.until_removed()
        assert await asyncio.gather(*sending) == [200] * 12
        await until(lambda: {record.ending for record in it.records()} == {"finished"})

        async def known_status() -> int | None:
            """None while the worker that is asked does not know yet."""
            status = await it.send()
            return None if status == 503 else status

        assert await until(known_status) == 404  # no such model any more


async def test_an_idle_replica_is_not_reported_as_removed_before_all_workers_know(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as it:
        answer = (await it.admin.delete("/admin/replicas?name=r0")).json()
        assert answer == {"name": "r0", "state": "draining", "in_flight": 1}
        await it.until_removed()


async def test_a_hung_replica_is_reported_to_the_owner_of_the_engines(tmp_path: Path) -> None:
    hung: list[str] = []
    failures = FailureSettings(
        silence_s=0.3, first_silence_s=0.3, max_attempts=1, max_open_s=30, replica_wait_s=0.01
    )
    flags = ("--model", "known", "--tpot-ms", "10", "--eos-every-tokens", "0")
    with spawn_mock_vllm(*flags) as mock_vllm:
        fleet = FleetSettings(entries=(ReplicaEntry(url=mock_vllm.url, name="r0"),), warm_up=False)
        settings = replace(WORKERS, fleet=fleet, failures=failures)
        async with (
            serve_gateway(settings, FixedReplicas([]), on_hung=hung.append) as gateway,
            httpx.AsyncClient(base_url=gateway.url, timeout=60) as http,
            httpx.AsyncClient(base_url=gateway.admin_url, timeout=60) as admin,
        ):
            await until(lambda: gateway.fleet.replicas()[0].state == "ready")

            async def is_known() -> bool:
                return bool((await http.get("/v1/models")).json()["data"])

            await until(is_known)  # the worker of this connection too
            body = chat(model="known", max_tokens=2000, stream=True)
            sending = asyncio.create_task(http.post(CHAT, json=body))
            await until(lambda: gateway.traffic.num_in_flight("r0") == 1)
            mock_vllm.stop()
            await until(lambda: hung == ["r0"])
            await sending
            states = gateway.traffic.breaker_states
            await until(lambda: states()["r0"].value == "open")
            assert 'paceline_breaker_state{replica="r0"} 2.0' in (await admin.get("/metrics")).text
            mock_vllm.resume()


async def test_created_and_revoked_keys_reach_all_workers(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    assert run_keys("create", "--file", file, "--tenant", "first").startswith("pl-")
    async with serving(tmp_path, keys=KeySettings(file=file)) as it:
        key = run_keys("create", "--file", file, "--tenant", "second")
        bearer = {"authorization": f"Bearer {key}"}

        async def statuses() -> set[int]:
            answers = [await it.http.get("/v1/models", headers=bearer) for _ in range(10)]
            return {answer.status_code for answer in answers}

        async def both(expected: int) -> None:
            """A worker checks the file when a request comes, at most once a second."""

            async def is_known() -> bool:
                return await statuses() == {expected}

            for process in workers():
                process.suspend()
                await until(is_known)
                process.resume()

        await both(200)
        run_keys("revoke", "--file", file, key.split("-")[1])
        await both(401)


def run_keys(*arguments: object) -> str:
    done = CliRunner().invoke(main, ["keys", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.stdout.strip()
