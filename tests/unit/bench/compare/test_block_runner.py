"""Which requests a block sends, and the prefix cache that it has for itself."""

from __future__ import annotations

from collections import Counter

import aiohttp
import pytest
from yarl import URL

from paceline.foundation.load.client import StreamingClient
from paceline.foundation.workloads import SamplingSettings
from paceline.workbench.bench.compare.block_load import BlockLoad
from paceline.workbench.bench.compare.block_runner import HttpBlockRunner, Target
from paceline.workbench.bench.compare.contrasts import Arm
from unit.bench.simulated import SimulatedServer, scripted


@pytest.mark.parametrize(("rate_per_s", "num_requests"), [(None, 1), (100.0, 4)])
async def test_every_block_has_its_own_salt_and_all_have_the_same_number_of_requests(
    server: SimulatedServer, rate_per_s: float | None, num_requests: int
) -> None:
    """Both arms are this server, so a salt that two blocks share would show as a cache hit.

    A block of 40 ms has four requests at a given rate, and one in a closed loop whose requests take
    50 ms or more.
    """
    sampling = SamplingSettings("", 0.0, None, None, 0, {})
    concurrency = 1 if rate_per_s is None else None
    delay_s = 0.05 if rate_per_s is None else 0.001
    load = BlockLoad([scripted(delay_s=delay_s)], sampling, 1, concurrency, rate_per_s, seed=0)
    async with aiohttp.ClientSession() as session:
        target = Target(StreamingClient(session, URL(server.url), None, 60), "simulated")
        runner = HttpBlockRunner({Arm.A: target, Arm.B: target}, load, "compare")
        await runner.prepare(0.04)
        before = {body["cache_salt"] for body in server.bodies}
        server.bodies.clear()
        for round_index in (0, 1):
            for position, arm in enumerate((Arm.A, Arm.B, Arm.B, Arm.A)):
                await runner.run(arm, round_index, position)
    salts = Counter(body["cache_salt"] for body in server.bodies)
    assert runner.num_requests == num_requests
    assert list(salts.values()) == [runner.num_requests] * 8
    assert not before & salts.keys()
