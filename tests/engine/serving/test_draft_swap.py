"""The draft of two real engines is swapped under streams: nothing fails, no greedy answer changes.

From the bundled draft to a copy of it in another folder, which is another draft to the server.
`tests/chaos/upgrades/test_draft_swap.py` has more engines, failures and drains that end early, with
mock servers; `benchmarks/draft_swap.py` measures acceptance and goodput before and after.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from chaos.gateway_process import GatewayProcess, start_gateway
from chaos.real_engines.bundled import CONFIG, MODEL, bundled_checks, prompts
from chaos.real_engines.engine_faults import READY_WITHIN_S
from chaos.real_engines.fault_run import EngineLoad, FaultRun
from chaos.real_engines.request_kinds import FAST_KINDS
from chaos.real_engines.run_report import count, find_errors
from chaos.transcript import Ending
from chaos.upgrades.draft_swap import drafts, swap_draft

from paceline.demo import draft_path

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(1200)]

NUM_STREAMS = 4
LOAD = EngineLoad(
    MODEL,
    FAST_KINDS,
    num_streams=NUM_STREAMS,
    max_tokens=96,
    num_streams_during_restart=NUM_STREAMS,
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("swap")
    with start_gateway(folder, CONFIG, ready_within_s=2 * READY_WITHIN_S) as started:
        yield started


async def test_a_swap_under_streams_changes_no_answer(
    gateway: GatewayProcess, tmp_path: Path
) -> None:
    copy = tmp_path / "copied-draft"
    shutil.copytree(draft_path(), copy)
    assert drafts(gateway.admin_url) == [str(draft_path())] * 2

    async def swap(_: asyncio.Event) -> None:
        ended = await asyncio.to_thread(
            swap_draft, gateway.admin_url, str(copy), within_s=2 * READY_WITHIN_S
        )
        assert ended["state"] == "completed", ended

    run = FaultRun(gateway, LOAD, prompts(2))
    requests = await run.run_during(swap)
    assert drafts(gateway.admin_url) == [str(copy)] * 2
    assert [one["restarts"] for one in gateway.replicas()] == [1, 1]
    assert {request.transcript.ending for request in requests} == {Ending.COMPLETED}
    assert find_errors(requests) == []
    assert count(requests).num_requests > 2 * NUM_STREAMS
    checked = await bundled_checks(gateway.url).check(requests)
    assert checked.num_compared > 0
    assert checked.faults == []
    assert checked.num_tails_unjudged == 0
