"""Drafts that end early while the KV cache or the context of a request is full."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from losslessness.early_stops import FIXED_LENGTH
from losslessness.engine_host import EngineHost

from engine.drafting.early_stop_batch import (
    MAX_MODEL_LEN,
    MAX_TOKENS,
    STEPS,
    assert_confidences_belong_to_the_drafts,
    draft_model,
    generate,
    llm,
    requests,
    set_length,
)

pytestmark = pytest.mark.engine

PREEMPTIONS = "vllm:num_preemptions"
NUM_BLOCKS = 11
"""Of 128 tokens, one of which vLLM keeps for itself. Eight requests run at most. Their prompts have
nearly one block each and grow into a second."""
PROMPT_TOKENS = 118
LONGEST_TOKENS = 16
"""Of the answer that ends at the context limit. The first few of them are drafted."""

Batch = tuple[list[list[int]], list[dict[str, Any]]]


def batches(host: EngineHost) -> dict[str, Batch]:
    """`many`: more than the KV cache holds. `longest`: one up to the context limit, beside five."""
    prompts, each = requests(host, prompt_tokens=PROMPT_TOKENS)
    longest = [token for prompt in prompts for token in prompt][: MAX_MODEL_LEN - LONGEST_TOKENS]
    short = [prompt[-20:] for prompt in prompts[3:8]]
    return {
        "many": (prompts, each),
        "longest": (
            [longest, *short],
            [{"max_tokens": LONGEST_TOKENS}] + [{"max_tokens": 2 * MAX_TOKENS}] * len(short),
        ),
    }


@dataclass(frozen=True)
class Run:
    """What an engine whose drafts end early answered to a batch."""

    found: list[list[int]]
    steps: list[dict[str, Any]]
    proposals: list[tuple[bool, int]]
    """By step: whether a request was at the context limit, and the tokens that were proposed."""
    num_preempted: float
    state: dict[str, Any]


@dataclass(frozen=True)
class Runs:
    expected: dict[str, list[list[int]]]
    """Without speculation, in a KV cache that holds all."""
    early: dict[str, Run]


@pytest.fixture(scope="module")
def runs() -> Iterator[Runs]:
    with EngineHost(llm(None)) as plain:
        expected = {name: generate(plain, *batch) for name, batch in batches(plain).items()}
    early = {}
    with EngineHost(
        {**llm(draft_model()), "num_gpu_blocks_override": NUM_BLOCKS},
        policy={"policy": "fixed"},
        fault=f"{STEPS}:vary_rules",
    ) as host:
        set_length(host, FIXED_LENGTH - 1)
        host.call(f"{STEPS}:note_context_limit")
        for name, batch in batches(host).items():
            before = host.metrics()[PREEMPTIONS]
            found = generate(host, *batch)
            early[name] = Run(
                found,
                host.call(f"{STEPS}:take_steps"),
                host.call(f"{STEPS}:take_proposals"),
                host.metrics()[PREEMPTIONS] - before,
                host.state(),
            )
        yield Runs(expected, early)


@pytest.mark.parametrize("name", ["many", "longest"])
def test_greedy_answers_are_those_without_speculation(runs: Runs, name: str) -> None:
    run = runs.early[name]
    assert run.found == runs.expected[name]
    assert run.state["policy_errors_total"] == 0
    assert run.state["safe_plan_steps_total"] == 0
    assert len({step["draft_length"] for step in run.steps}) > 4
    assert_confidences_belong_to_the_drafts(run.steps)


def test_requests_were_preempted_while_drafts_ended_early(runs: Runs) -> None:
    assert runs.early["many"].num_preempted > 3
    assert runs.early["longest"].num_preempted == 0


def test_beside_a_request_at_the_context_limit_nothing_is_drafted(runs: Runs) -> None:
    """Stock vLLM proposes zeros for the whole batch there. Before and after, drafts end early."""
    proposals = runs.early["longest"].proposals
    at_limit = [number for number, (is_at_limit, _) in enumerate(proposals) if is_at_limit]
    assert len(at_limit) > 1
    assert sum(proposals[number][1] for number in at_limit) == 0
    for others in (proposals[: at_limit[0]], proposals[at_limit[-1] + 1 :]):
        assert len({num_proposed for _, num_proposed in others}) > 4
