"""Drafts that end early on two ranks of tensor parallelism, which must end them alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from losslessness.checks import teacher_force
from losslessness.early_stops import FIXED_LENGTH
from losslessness.engine_host import EngineHost

from engine.drafting.early_stop_batch import (
    STEPS,
    answers,
    draft_model,
    llm,
    requests,
    set_length,
)
from paceline.workbench.audit.statistics.greedy import NEAR_TIE_NATS

pytestmark = [pytest.mark.engine, pytest.mark.slow]

RANKS = "losslessness.ranks"


@dataclass(frozen=True)
class Runs:
    plain: EngineHost
    """One process, without speculation."""
    expected: list[list[int]]
    found: list[list[int]]
    """Greedy."""
    rounds: dict[str, list[list[dict[str, Any]]]]
    """By temperature: those of each rank."""
    steps: list[dict[str, Any]]
    state: dict[str, Any]


@pytest.fixture(scope="module")
def runs() -> Iterator[Runs]:
    drafts = draft_model(draft_sample_method="probabilistic")
    with EngineHost(
        {**llm(drafts), "tensor_parallel_size": 2},
        policy={"policy": "fixed"},
        fault=f"{RANKS}:vary_rules",
    ) as host:
        set_length(host, FIXED_LENGTH - 1)
        host.call(f"{RANKS}:take")
        found = answers(host)
        rounds = {"greedy": host.call(f"{RANKS}:take")}
        answers(host, temperature=0.9)
        rounds["sampled"] = host.call(f"{RANKS}:take")
        steps, state = host.call(f"{STEPS}:take_steps"), host.state()
    with EngineHost(llm(None)) as plain:
        yield Runs(plain, answers(plain), found, rounds, steps, state)


@pytest.mark.parametrize("name", ["greedy", "sampled"])
def test_ranks_sample_and_draft_the_same_tokens(runs: Runs, name: str) -> None:
    """With ends at every length: a rank that ran another pass would wait for the other one."""
    first, second = runs.rounds[name]
    assert first == second
    lengths = {len(drafts) for one in first for drafts in one["drafted"]}
    assert len(lengths) > 4


def test_greedy_answers_are_those_of_one_process_without_speculation(runs: Runs) -> None:
    """Sums in another order may swap tokens that are nearly equally likely."""
    prompts, each = requests(runs.plain)
    differing = [
        row
        for row, (one, other) in enumerate(zip(runs.found, runs.expected, strict=True))
        if one != other
    ]
    assert not any("structured_outputs" in each[row] for row in differing)
    verdicts = teacher_force(
        runs.plain,
        [prompts[row] for row in differing],
        [runs.found[row] for row in differing],
        near_tie_nats=NEAR_TIE_NATS["float32"],
    )
    assert all(verdict.near_ties and not verdict.wrong for verdict in verdicts)
    assert len(differing) < len(prompts) / 4
    assert runs.state["policy_errors_total"] == 0
    assert any(step["confidences"] for step in runs.steps)
