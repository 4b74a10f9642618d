"""Replicas follow the addresses of a DNS name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from paceline.runtime.gateway import ReplicaEntry
from paceline.runtime.gateway.fleet import Fleet, FleetConflict
from paceline.runtime.gateway.proxy.lease import LeaseTable
from paceline.runtime.gateway.routing.breaker import Breakers
from paceline.runtime.gateway.routing.stream_progress import ProgressWatch
from paceline.runtime.gateway.settings import FailureSettings
from unit.gateway.conftest import until
from unit.gateway.fleet.fake_remote import FakeRemote
from unit.gateway.running_fleet import FLEET, NO_ENGINES, running


class FakeDns:
    """A resolver with a configurable answer."""

    def __init__(self, *answer: str) -> None:
        self.answer: Sequence[str] | Exception = answer
        self.num_queries = 0

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.num_queries += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@asynccontextmanager
async def dns_fleet(
    dns: FakeDns, port: int, *entries: ReplicaEntry
) -> AsyncIterator[tuple[Fleet, LeaseTable]]:
    failures = FailureSettings()
    leases = LeaseTable(Breakers(failures), ProgressWatch())
    settings = replace(FLEET, entries=(ReplicaEntry(dns=f"llm.svc:{port}", name="llm"), *entries))
    async with Fleet(settings, NO_ENGINES, leases.num_in_flight, resolve=dns) as fleet:
        yield fleet, leases


@asynccontextmanager
async def remotes_on(*hosts: str) -> AsyncIterator[list[FakeRemote]]:
    """Servers on several addresses of the loopback network, on one port."""
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(FakeRemote(hosts[0]))
        others = [
            await stack.enter_async_context(FakeRemote(host, first.port)) for host in hosts[1:]
        ]
        yield [first, *others]


async def test_every_address_of_a_name_is_a_replica_that_joins_and_leaves_with_it() -> None:
    async with remotes_on("127.0.0.1", "127.0.0.2") as (first, _):
        dns = FakeDns("127.0.0.1")
        async with dns_fleet(dns, first.port) as (fleet, leases):
            await until(lambda: _states(fleet) == {"llm@127.0.0.1": "ready"})
            dns.answer = ("127.0.0.1", "127.0.0.2")
            await until(
                lambda: set(_states(fleet).values()) == {"ready"} and len(_states(fleet)) == 2
            )
            second = next(r for r in fleet.replicas() if r.name == "llm@127.0.0.2")
            async with leases.lease(second):
                dns.answer = ("127.0.0.1",)
                await until(lambda: _states(fleet).get("llm@127.0.0.2") == "draining")
                num_queries = dns.num_queries
                await until(lambda: dns.num_queries > num_queries + 3)
                assert "llm@127.0.0.2" in _states(fleet)
            await until(lambda: _states(fleet) == {"llm@127.0.0.1": "ready"})


async def test_an_address_that_returns_while_draining_stays() -> None:
    async with remotes_on("127.0.0.1", "127.0.0.2") as (first, second):
        dns = FakeDns("127.0.0.1", "127.0.0.2")
        async with dns_fleet(dns, first.port) as (fleet, leases):
            await until(lambda: list(_states(fleet).values()) == ["ready", "ready"])
            replica = next(r for r in fleet.replicas() if r.name == "llm@127.0.0.2")
            async with leases.lease(replica):
                dns.answer = ("127.0.0.1",)
                await until(lambda: _states(fleet).get("llm@127.0.0.2") == "draining")
                num_warm_ups = second.num_finished
                dns.answer = ("127.0.0.1", "127.0.0.2")
                await until(lambda: _states(fleet).get("llm@127.0.0.2") == "ready")
                assert second.num_finished == num_warm_ups + 1
            num_queries = dns.num_queries
            # By then the end of the lease has been seen.
            await until(lambda: dns.num_queries > num_queries + 5)
            assert list(_states(fleet).values()) == ["ready", "ready"]


@pytest.mark.parametrize("answer", [(), OSError("SERVFAIL"), UnicodeError("label too long")])
async def test_a_name_that_no_longer_resolves_keeps_its_replicas(answer: Any) -> None:
    async with remotes_on("127.0.0.1") as (remote,):
        dns = FakeDns("127.0.0.1")
        async with dns_fleet(dns, remote.port) as (fleet, _):
            await until(lambda: _states(fleet) == {"llm@127.0.0.1": "ready"})
            dns.answer = answer
            before = dns.num_queries
            await until(lambda: dns.num_queries > before + 3)
            assert _states(fleet) == {"llm@127.0.0.1": "ready"}
            (entry,) = fleet.dns_entries()
            assert entry.failure
            assert entry.addresses == ("127.0.0.1",)


async def test_an_address_stays_with_the_entry_that_has_it_first() -> None:
    async with remotes_on("127.0.0.1", "127.0.0.2") as (first, _):
        dns = FakeDns("127.0.0.1", "127.0.0.2")
        by_url = ReplicaEntry(url=first.url, name="by-url")
        async with dns_fleet(dns, first.port, by_url) as (fleet, _):
            await until(lambda: list(_states(fleet).values()) == ["ready", "ready"])
            assert set(_states(fleet)) == {"by-url", "llm@127.0.0.2"}
            with pytest.raises(FleetConflict, match=r"is already the replica 'llm@127\.0\.0\.2'"):
                fleet.add(ReplicaEntry(url=f"http://127.0.0.2:{first.port}", name="again"))


async def test_a_name_is_drained_and_removed_as_a_whole() -> None:
    async with remotes_on("127.0.0.1", "127.0.0.2") as (first, _):
        dns = FakeDns("127.0.0.1")
        async with dns_fleet(dns, first.port) as (fleet, _):
            await until(lambda: _states(fleet) == {"llm@127.0.0.1": "ready"})
            fleet.set_draining("llm", True)
            dns.answer = ("127.0.0.1", "127.0.0.2")
            await until(lambda: list(_states(fleet).values()) == ["draining", "draining"])
            with pytest.raises(FleetConflict, match="comes from the DNS entry 'llm'"):
                fleet.remove("llm@127.0.0.1")
            assert fleet.remove("llm") is True
            assert (list(fleet.replicas()), list(fleet.dns_entries())) == ([], [])
            before = dns.num_queries
            # sleep: five periods of queries that no longer come, also within more time
            await asyncio.sleep(0.1)
            assert dns.num_queries == before


async def test_a_real_name_is_resolved() -> None:
    async with (
        FakeRemote() as remote,
        running(ReplicaEntry(dns=f"localhost:{remote.port}")) as it,
    ):
        entry = f"localhost:{remote.port}"
        await it.until_state(f"{entry}@127.0.0.1", "ready")
        described = (await it.replicas())[f"{entry}@127.0.0.1"]
        assert (described["origin"], described["entry"]) == ("dns", entry)
        (listed,) = (await it.admin.get("/admin/replicas")).json()["dns"]
        assert "127.0.0.1" in listed["addresses"]


def _states(fleet: Fleet) -> dict[str, str]:
    return {replica.name: replica.state for replica in fleet.replicas()}
