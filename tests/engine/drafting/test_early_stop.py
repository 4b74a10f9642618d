"""Drafts that end early and are verified in part, inside the real vLLM engine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from losslessness.early_stops import FIXED_LENGTH
from losslessness.engine_host import EngineHost
from losslessness.tiny_models import write_eagle_head, write_mtp_target, write_reduced_eagle3_head

from engine.drafting.early_stop_batch import (
    CAP,
    STEPS,
    answers,
    assert_confidences_belong_to_the_drafts,
    draft_model,
    llm,
    set_length,
)

pytestmark = pytest.mark.engine

CACHED = "vllm:prefix_cache_hits"


@dataclass(frozen=True)
class Runs:
    """What engines answered to the same requests, and the samples of their steps."""

    expected: list[list[int]]
    """Without speculation."""
    found: dict[str, list[list[int]]]
    steps: dict[str, list[dict[str, Any]]]
    verified: list[list[int]]
    """Draft tokens verified per step, by request."""
    state: dict[str, Any]
    metrics: dict[str, Any]
    num_cached: float
    """Prompt tokens that were found in the prefix cache while drafts ended early."""
    log: str


@pytest.fixture(scope="module")
def runs() -> Iterator[Runs]:
    with EngineHost(llm(None)) as plain:
        expected = answers(plain)
    found, steps = {}, {}
    with EngineHost(
        llm(draft_model()), policy={"policy": "fixed"}, fault=f"{STEPS}:vary_rules"
    ) as host:
        for name, length in (("fixed", FIXED_LENGTH), ("early", FIXED_LENGTH - 1)):
            set_length(host, length)
            if name == "early":
                host.call("losslessness.verified_lengths:install")
                num_cached = host.metrics()[CACHED]
            host.call(f"{STEPS}:take_steps")
            found[name] = answers(host)
            steps[name] = host.call(f"{STEPS}:take_steps")
        verified = host.call("losslessness.verified_lengths:take")
        metrics = host.metrics()
        num_cached = metrics[CACHED] - num_cached
        yield Runs(expected, found, steps, verified, host.state(), metrics, num_cached, host.log())


def test_greedy_answers_are_those_without_speculation(runs: Runs) -> None:
    assert runs.found["fixed"] == runs.expected
    assert runs.found["early"] == runs.expected
    assert runs.state["policy_errors_total"] == 0, runs.log[-3000:]
    assert runs.state["safe_plan_steps_total"] == 0


def test_prompts_came_in_chunks_and_from_the_cache_and_a_grammar_cut_drafts(runs: Runs) -> None:
    """All in the run whose answers the test above compares."""
    steps = runs.steps["early"]
    assert runs.num_cached > 1000
    assert sum(step["num_prefilling"] > 0 for step in steps) > 3
    cut = [
        drafted < width
        for step in steps
        for name, drafted, width in zip(
            step["classes"], step["drafted"], step["requested"], strict=False
        )
        if name == "greedy bound"
    ]
    assert any(cut)


def test_fewer_passes_run_and_fewer_tokens_are_verified(runs: Runs) -> None:
    num_passes, num_verified = (
        {name: sum(step[key] for step in steps) for name, steps in runs.steps.items()}
        for key in ("draft_length", "verified_draft_tokens")
    )
    assert num_passes["early"] < 0.8 * num_passes["fixed"]
    assert num_verified["early"] < 0.8 * num_verified["fixed"]


def test_samples_have_what_was_decided(runs: Runs) -> None:
    """Widths and passes differ between requests and steps; confidences are probabilities."""
    steps = runs.steps["early"]
    assert len({step["draft_length"] for step in steps}) > 4
    with_widths = [step for step in steps if len(set(step["requested"])) > 2]
    assert len(with_widths) > 10
    assert_confidences_belong_to_the_drafts(steps)
    assert all(len(step["classes"]) == len(step["drafted"]) for step in steps)
    classes = {name for step in steps for name in step["classes"]}
    assert classes == {"greedy", "greedy bound"}


def test_only_a_grammar_makes_a_draft_shorter_than_its_width(runs: Runs) -> None:
    """So a token that was dropped for its chance does not count as not offered."""
    for step in runs.steps["early"]:
        requested = step["requested"] or [step["requested_draft_length"]] * len(step["drafted"])
        for name, drafted, width in zip(step["classes"], step["drafted"], requested, strict=True):
            assert width > 0
            assert drafted == width or name == "greedy bound"


def test_a_cap_is_kept(runs: Runs) -> None:
    *_, capped = runs.verified
    assert set(capped) <= set(range(1, CAP + 1))
    assert max(map(max, runs.verified)) == FIXED_LENGTH


def test_the_governors_counts_equal_vllms(runs: Runs) -> None:
    assert runs.state["num_drafts_total"] == runs.metrics["vllm:spec_decode_num_drafts"]
    assert runs.state["drafted_tokens_total"] == runs.metrics["vllm:spec_decode_num_draft_tokens"]


def test_after_an_error_in_the_workers_all_is_drafted_and_verified() -> None:
    """The answers stay, one error is counted, and no step after it reports confidences.

    The capped request is the last one to end, so the length is its cap then.
    """
    with EngineHost(
        llm(draft_model()),
        policy={"policy": "fixed", "draft_length": FIXED_LENGTH - 1},
        fault=f"{STEPS}:fail_in_third_step",
    ) as host:
        first, second = answers(host), answers(host)
        steps = host.call(f"{STEPS}:take_steps")
        state, log = host.state(), host.log()
    assert first == second
    assert state["policy_errors_total"] == 1
    assert log.count("drafts no longer end early until the engine restarts") == 1
    assert not any(step["confidences"] for step in steps[5:])
    assert {step["draft_length"] for step in steps[5:]} == {CAP, FIXED_LENGTH - 1}


HEADS = {"eagle": write_eagle_head, "eagle3": write_reduced_eagle3_head}


@pytest.mark.parametrize("method", [*HEADS, "mtp"])
def test_heads_of_the_target_end_early_too(method: str, tmp_path: Path) -> None:
    """The answers are those of the full length."""
    arguments = llm({"method": method, "num_speculative_tokens": FIXED_LENGTH})
    if method == "mtp":
        arguments["model"] = str(write_mtp_target(tmp_path / "mtp"))
    else:
        arguments["speculative_config"]["model"] = str(HEADS[method](tmp_path / "head"))
    with EngineHost(arguments, policy={"policy": "fixed"}, fault=f"{STEPS}:vary_rules") as host:
        set_length(host, FIXED_LENGTH)
        expected = answers(host)
        host.call(f"{STEPS}:take_steps")
        set_length(host, FIXED_LENGTH - 1)
        found = answers(host)
        steps = host.call(f"{STEPS}:take_steps")
        state = host.state()
    assert found == expected
    assert len({step["draft_length"] for step in steps}) > 2
    assert any(step["confidences"] for step in steps)
    assert state["policy_errors_total"] == 0
