"""Streams continue token for token when parts of a real engine are killed under them.

Two engines with the bundled pair and continuous streams of every kind: the engine core, the API
server and the whole process group are killed; no process of that engine is left, and it starts
again. In `make test`, `test_cut_streams.py` cuts the connections of streams to a real engine, and
`test_serve.py` kills the only engine core. `benchmarks/chaos_real.py` also stops engines, under
more streams, with clients that read slowly and with streams during the restart.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from chaos.engines import Victim, engine_processes, is_alive
from chaos.gateway_process import GatewayProcess, start_gateway
from chaos.real_engines.bundled import CONFIG, MODEL, bundled_checks, prompts
from chaos.real_engines.engine_faults import READY_WITHIN_S, EngineFault
from chaos.real_engines.fault_run import EngineLoad, FaultRun
from chaos.real_engines.request_kinds import FAST_KINDS
from chaos.real_engines.run_report import count, find_errors

from engine.serving.paceline_server import assert_gone

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(900)]

LOAD = EngineLoad(
    MODEL,
    FAST_KINDS,
    num_streams=2 * len(FAST_KINDS),
    max_tokens=96,
    num_streams_during_restart=0,
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("continuation")
    with start_gateway(folder, CONFIG, ready_within_s=2 * READY_WITHIN_S) as started:
        yield started


@pytest.fixture(scope="module")
def run(gateway: GatewayProcess) -> FaultRun:
    return FaultRun(gateway, LOAD, prompts(2))


@pytest.mark.parametrize("victim", [Victim.CORE, Victim.API_SERVER, Victim.GROUP])
async def test_streams_survive_a_kill(
    gateway: GatewayProcess, run: FaultRun, victim: Victim
) -> None:
    before = {name: engine_processes(gateway.pid, name) for name in ("engine-0", "engine-1")}
    fault = EngineFault("SIGKILL", victim)
    requests = await run.run([fault])
    assert_gone(before.pop(fault.replica))
    (other,) = before.values()
    assert all(is_alive(pid) for pid in other)
    assert find_errors(requests) == []
    counts = count(requests)
    assert counts.num_eligible_streams_struck > 0
    assert counts.num_eligible_streams_completed == counts.num_eligible_streams
    assert sum(one.num_interrupted_completed for one in counts.kinds.values()) > 0
    checked = await bundled_checks(gateway.url).check(requests)
    assert checked.num_compared > 0
    assert checked.num_sampled_judged > 0
    assert checked.faults == []
    assert checked.num_tails_unjudged == 0
