"""The probe port is handed over with the others, and answers before, during and after it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from paceline.runtime.serve.handover.messages import VERSION, Offer, decode
from paceline.runtime.serve.plan import ServePlan
from unit.gateway.conftest import until
from unit.gateway.fleet.fake_remote import FakeRemote
from unit.serve.handover.servers import begin, plan_for, serving


def with_probes(plan: ServePlan, port: int | None) -> ServePlan:
    return replace(plan, gateway=replace(plan.gateway, probe_port=port))


@pytest.mark.parametrize("is_set", [True, False])
async def test_a_new_server_serves_the_offered_socket_or_its_own(
    folder: Path, remote: FakeRemote, *, is_set: bool
) -> None:
    """The old one may have had no port for probes."""
    old_port = 0 if is_set else None
    async with serving(with_probes(plan_for(folder / "a", remote.url), old_port)) as old:
        port = old.gateway.probe_port
        new_plan = with_probes(plan_for(folder / "b", remote.url, old.ports), port or 0)
        async with httpx.AsyncClient(timeout=60) as client:
            taken = await begin(old)
            assert len(taken.sockets) == taken.offer.num_sockets == (3 if is_set else 2)
            async with serving(new_plan, taken) as new:
                assert is_set == (new.gateway.probe_port == port)
                url = f"http://127.0.0.1:{new.gateway.probe_port}"
                assert (await client.get(f"{url}/health")).status_code == 200
                await until(old.task.done)
                assert (await client.get(f"{url}/ready")).status_code == 200
            taken.close()


async def test_a_server_without_a_probe_port_leaves_the_offered_one(
    folder: Path, remote: FakeRemote
) -> None:
    async with serving(with_probes(plan_for(folder / "a", remote.url), 0)) as old:
        port, plan = old.gateway.probe_port, plan_for(folder / "b", remote.url, old.ports)
        taken = await begin(old)
        async with serving(plan, taken) as new:
            await until(old.task.done)
            assert new.gateway.probe_port is None
            async with httpx.AsyncClient(timeout=60) as client:
                with pytest.raises(httpx.ConnectError):
                    await client.get(f"http://127.0.0.1:{port}/health")
        taken.close()


def test_the_offer_of_an_older_process_has_two_sockets() -> None:
    packet = b'{"type":"offer","version":%d,"pid":7,"engines":[]}' % VERSION
    offer = decode(packet)
    assert isinstance(offer, Offer)
    assert offer.num_sockets == 2
