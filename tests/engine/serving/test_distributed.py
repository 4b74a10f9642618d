"""One engine in several processes gives the greedy output of one process.

Two tensor-parallel workers with the bundled draft under the governor, and two pipeline stages on
two nodes, which speculate with no drafter (`engine.compat.drafters.refused_in_pipeline`).
`benchmarks/distributed.py` has more prompts and the twin.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from chaos.gateway_process import GatewayProcess, start_gateway
from chaos.real_engines.bundled import MODEL, prompts
from chaos.real_engines.engine_faults import READY_WITHIN_S

from engine.serving.greedy_answers import GreedyAnswer, ask, compare
from engine.serving.two_nodes import node_network, start_over_two_nodes, why_no_network
from paceline.workbench.audit.statistics.greedy import NEAR_TIE_NATS

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(1800)]

MAX_TOKENS = 64
NUM_PROMPTS = 6
WITHIN_S = 3 * READY_WITHIN_S
"""Of three processes that import vLLM on two cores."""


def settings(draft: str, *vllm_args: str) -> dict[str, Any]:
    """In float32, where nearly equal tokens are rare, and without compiling."""
    engine = {
        "draft": draft,
        "dtype": "float32",
        "compile": False,
        "kv_cache_bytes": 256 * 1024**2,
        "vllm_args": list(vllm_args),
    }
    return {"engine": engine}


def answers(gateway: GatewayProcess) -> list[GreedyAnswer]:
    """All at once, so that the batches of the servers differ."""
    return ask(
        gateway.url, MODEL, prompts(NUM_PROMPTS), max_tokens=MAX_TOKENS, concurrency=NUM_PROMPTS
    )


def assert_same(references: Sequence[GreedyAnswer], found: Sequence[GreedyAnswer]) -> None:
    compared = [compare(*pair) for pair in zip(references, found, strict=True)]
    wrong = [one for one in compared if one.differs and not one.is_near_tie(TIE_NATS)]
    assert not wrong, wrong
    assert sum(one.num_equal for one in compared) > NUM_PROMPTS * MAX_TOKENS // 4


TIE_NATS = NEAR_TIE_NATS["float32"]


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> list[GreedyAnswer]:
    """Of one process, without speculation."""
    folder = tmp_path_factory.mktemp("one-process")
    with start_gateway(folder, settings("none"), ready_within_s=WITHIN_S) as gateway:
        return answers(gateway)


def test_two_tensor_parallel_workers_draft_and_answer_as_one_process(
    references: list[GreedyAnswer], tmp_path: Path
) -> None:
    config = settings("auto", "--tensor-parallel-size", "2")
    with start_gateway(tmp_path, config, ready_within_s=WITHIN_S) as gateway:
        found = answers(gateway)
        metrics = gateway.metrics()
    assert_same(references, found)
    counted = {
        name: sum(n for sample, n in metrics.items() if sample.startswith(f"{name}{{"))
        for name in (
            "paceline_governor_drafted_tokens_total",
            "paceline_governor_accepted_tokens_total",
        )
    }
    drafted, accepted = counted.values()
    assert drafted >= accepted > 0


def test_two_pipeline_stages_on_two_nodes_answer_as_one_process(
    references: list[GreedyAnswer], tmp_path: Path
) -> None:
    why = why_no_network()
    if why:
        pytest.skip(f"no second node: {why}")
    with (
        node_network() as network,
        start_over_two_nodes(
            tmp_path, settings("none"), network, ready_within_s=WITHIN_S
        ) as started,
    ):
        gateway, second = started
        found = answers(gateway)
        assert second.poll() is None
    assert_same(references, found)
