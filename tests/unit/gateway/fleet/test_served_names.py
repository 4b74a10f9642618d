"""All model ids that a replica lists are served: aliases, adapters, and other models."""

from __future__ import annotations

import asyncio
import json

from aiohttp import web

from paceline.runtime.gateway import ReplicaEntry
from paceline.runtime.gateway.replicas import Replica
from unit.gateway.conftest import FixedReplicas, chat, until
from unit.gateway.fake_engine import MODEL
from unit.gateway.fleet.fake_remote import FakeRemote
from unit.gateway.running_fleet import CHAT, Running, running

ADAPTER = {"id": "sql-lora", "parent": MODEL, "root": "/adapters/sql"}
ALIAS = {"id": "assistant", "max_model_len": 2048}
BASE = {"id": MODEL, "max_model_len": 2048}


async def served_ids(it: Running) -> dict[str, int | None]:
    listed = (await it.http.get("/v1/models")).json()["data"]
    return {one["id"]: one["max_model_len"] for one in listed}


async def status_for(it: Running, model: str) -> int:
    return (await it.http.post(CHAT, json=chat(model=model))).status_code


async def test_aliases_and_adapters_reach_the_engine_under_their_own_name() -> None:
    async with FakeRemote() as remote:
        remote.models = [BASE, ALIAS, ADAPTER]
        async with running(ReplicaEntry(url=remote.url, name="a")) as it:
            await it.until_state("a", "ready")
            assert await served_ids(it) == {MODEL: 2048, "assistant": 2048, "sql-lora": 2048}
            for model in (MODEL, "assistant", "sql-lora"):
                assert await status_for(it, model) == 200
                assert json.loads(remote.bodies[-1])["model"] == model
            one = (await it.http.get("/v1/models/sql-lora")).json()
            assert one["id"] == "sql-lora"
            assert await status_for(it, "other") == 404
            described = (await it.replicas())["a"]
            assert described["model"] == MODEL
            assert described["other_models"] == ["assistant", "sql-lora"]


async def test_an_adapter_that_is_loaded_later_is_served_and_one_that_is_unloaded_is_not() -> None:
    async with FakeRemote() as remote, running(ReplicaEntry(url=remote.url, name="a")) as it:
        await it.until_state("a", "ready")
        assert await status_for(it, "sql-lora") == 404
        remote.models = [BASE, ADAPTER]
        await until(lambda: it.gateway.fleet.replicas()[0].serves("sql-lora"))
        assert await status_for(it, "sql-lora") == 200
        remote.models = None  # without a list the first id is served on
        before = remote.num_requests["/v1/models"]
        await until(lambda: remote.num_requests["/v1/models"] >= before + 2)
        assert await status_for(it, MODEL) == 200
        remote.models = [BASE]
        await until(lambda: not it.gateway.fleet.replicas()[0].serves("sql-lora"))
        assert await status_for(it, "sql-lora") == 404


async def test_an_entry_that_names_a_model_serves_that_one_alone() -> None:
    async with FakeRemote() as remote:
        remote.models = [BASE, ALIAS]
        async with running(ReplicaEntry(url=remote.url, name="a", model="assistant")) as it:
            await it.until_state("a", "ready")
            assert await served_ids(it) == {"assistant": 2048}
            assert await status_for(it, MODEL) == 404


async def test_a_request_for_an_adapter_goes_to_a_replica_that_has_it() -> None:
    async with FakeRemote() as plain, FakeRemote() as adapted:
        adapted.models = [BASE, ADAPTER]
        entries = (
            ReplicaEntry(url=plain.url, name="a"),
            ReplicaEntry(url=adapted.url, name="b"),
        )
        async with running(*entries) as it:
            await it.until_state("a", "ready")
            await it.until_state("b", "ready")
            before = plain.num_begun
            for _ in range(6):
                assert await status_for(it, "sql-lora") == 200
            assert plain.num_begun == before


async def test_the_adapters_of_a_local_engine_are_served() -> None:
    """vLLM's --lora-modules; its state comes from the supervisor, its ids from the engine."""
    async with FakeRemote() as engine:
        engine.models = [BASE, ADAPTER]
        local = FixedReplicas([Replica("engine-0", engine.url, MODEL, "ready")])
        async with running(local=local) as it:
            await until(lambda: it.gateway.fleet.replicas()[0].serves("sql-lora"))
            assert await status_for(it, "sql-lora") == 200


class HeldRemote(FakeRemote):
    """Answers the requests of the test once it lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.released = asyncio.Event()
        self.num_held = 0

    async def _do(self, request: web.Request, body: dict[str, object]) -> web.StreamResponse:
        if body.get("max_tokens") == 7:  # not the warm-up
            self.num_held += 1
            await self.released.wait()
        return await super()._do(request, body)


async def has_arrived(it: Running, remote: HeldRemote, number: int) -> bool:
    """Whether the first request is at the replica, and `number` others wait."""
    page = (await it.admin.get("/metrics")).text
    lines = [
        line for line in page.splitlines() if line.startswith("paceline_admission_queue_length{")
    ]
    return remote.num_held == 1 and sum(float(line.split()[-1]) for line in lines) == number


async def test_requests_for_all_ids_wait_in_one_queue() -> None:
    """In queues of their own, the first id would get every slot that becomes free."""
    async with HeldRemote() as remote:
        remote.models = [BASE, ALIAS]
        entry = ReplicaEntry(url=remote.url, name="a", max_in_flight=1)
        async with running(entry) as it:
            await it.until_state("a", "ready")
            order: list[str] = []

            async def ask(number: int, model: str) -> None:
                answer = await it.http.post(CHAT, json=chat(model=model, max_tokens=7))
                assert answer.status_code == 200
                order.append(f"{number} {model}")

            models = [MODEL, "assistant", MODEL, "assistant", MODEL]
            tasks = []
            for number, model in enumerate(models):
                tasks.append(asyncio.create_task(ask(number, model)))
                await until(lambda n=number: has_arrived(it, remote, n))  # type: ignore[misc]
            remote.released.set()
            await asyncio.gather(*tasks)
            assert order == [f"{number} {model}" for number, model in enumerate(models)]
