"""Streams continue token for token when parts of a real engine are killed under them.

Two engines with the bundled pair and continuous streams of every kind: the engine core is killed,
and in `make test-slow` the API server and the whole process group; no process of that engine is
left, and it starts again. `benchmarks/chaos_real.py` also stops engines, under more streams, with
clients that read slowly and with streams during the restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from chaos.attempt_log import FailedAttempt
from chaos.engines import Victim, engine_processes, is_alive
from chaos.gateway_process import GatewayProcess, start_gateway
from chaos.real_engines.answers.answer_checks import Checked
from chaos.real_engines.bundled import CONFIG, MODEL, bundled_checks, bundled_tokenizer, prompts
from chaos.real_engines.engine_faults import READY_WITHIN_S, EngineFault
from chaos.real_engines.fault_run import EngineLoad, FaultRun
from chaos.real_engines.request_kinds import FAST_KINDS, Check, RequestKind
from chaos.real_engines.run_report import LoadRequest, count, find_errors
from chaos.transcript import Transcript

from engine.serving.paceline_server import assert_gone

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

LOAD = EngineLoad(
    MODEL,
    FAST_KINDS,
    num_streams=2 * len(FAST_KINDS),
    max_tokens=96,
    num_streams_during_restart=0,
)
VOCABULARY = 4096
CUT = FailedAttempt("engine-0", "broken", "", "continue_elsewhere", "replica_failed")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("continuation")
    with start_gateway(folder, CONFIG, ready_within_s=2 * READY_WITHIN_S) as started:
        yield started


@pytest.fixture(scope="module")
def run(gateway: GatewayProcess) -> FaultRun:
    return FaultRun(gateway, LOAD, prompts(2))


@pytest.mark.parametrize(
    "victim",
    [
        Victim.CORE,
        pytest.param(Victim.API_SERVER, marks=pytest.mark.slow),
        pytest.param(Victim.GROUP, marks=pytest.mark.slow),
    ],
)
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


def with_another_token(ids: list[int]) -> list[int]:
    """With an improbable token in the middle."""
    half = len(ids) // 2
    return [*ids[:half], (ids[half] + 1) % VOCABULARY, *ids[half + 1 :]]


def without_a_token(ids: list[int]) -> list[int]:
    half = len(ids) // 2
    return [*ids[:half], *ids[half + 1 :]]


async def test_planted_faults_are_found_by_what_a_real_engine_computes(
    gateway: GatewayProcess, run: FaultRun
) -> None:
    await run.record_references()
    prompt, checks, decode = run.prompts[0], bundled_checks(gateway.url), bundled_tokenizer().decode

    async def check(kind: RequestKind, answer: Transcript) -> Checked:
        received = answer if kind.has_ids else replace(answer, ids=[])
        return await checks.check([LoadRequest(kind, prompt, LOAD.max_tokens, received, [CUT])])

    for kind in FAST_KINDS:
        is_sampled = kind.check is Check.SAMPLED
        right = prompt.references["chat" if is_sampled else kind.reference]
        assert (await check(kind, right)).differences == [], kind.name
        for change in (
            (with_another_token,) if is_sampled else (with_another_token, without_a_token)
        ):
            ids = change(right.ids)
            checked = await check(kind, replace(right, ids=ids, text=decode(ids)))
            assert len(checked.faults) == 1, (kind.name, change.__name__)
