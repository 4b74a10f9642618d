"""Engines in a pipeline, and over several nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.runtime.serve.startup_checks.checks.nodes import check_nodes, check_pipeline
from paceline.runtime.serve.startup_checks.facts import StartupFacts
from paceline.runtime.serve.startup_checks.values import CannotJudge, Verdict
from unit.serve.startup_checks.machines import CPU, GPU
from unit.serve.startup_checks.test_parallelism import found, spread


def staged(facts: StartupFacts, method: str | None, **drafting: object) -> StartupFacts:
    """Two pipeline stages with a drafter."""
    given = {} if method is None else {"method": method, **drafting}
    return spread(1, facts, pipeline_parallel=2, drafting=given)


def across(num_nodes: int = 2, **launch: object) -> StartupFacts:
    """Two GPUs on each of the nodes, with one pipeline stage on each."""
    given = {"pipeline_parallel": 2, "master_address": "10.0.0.1", **launch}
    return spread(2, num_nodes=num_nodes, **given)


@pytest.mark.parametrize("method", ["draft_model", "ngram", "suffix", "eagle3"])
def test_on_a_cpu_no_drafter_runs_in_a_pipeline(method: str) -> None:
    result = found(check_pipeline(staged(CPU, method)))
    assert result.verdict is Verdict.REFUSED
    for part in ("size is 2", method, "only the last stage", "--draft none", "--tensor-parallel"):
        assert part in result.text
    assert "--draft ngram" not in result.text


def test_on_gpus_a_draft_model_is_refused_and_other_drafters_are_not_judged() -> None:
    result = found(check_pipeline(staged(GPU, "draft_model")))
    assert (result.verdict, "share of its layers" in result.text) == (Verdict.REFUSED, True)
    assert "--draft ngram" in result.text
    for method in ("ngram_gpu", "eagle3", "mtp"):
        with pytest.raises(CannotJudge, match=method):
            check_pipeline(staged(GPU, method))


def test_what_needs_the_older_model_runner_is_refused_on_gpus_too() -> None:
    for facts in (staged(GPU, "suffix"), staged(GPU, "eagle3", parallel_drafting=True)):
        result = found(check_pipeline(facts))
        assert (result.verdict, "Model Runner V1" in result.text) == (Verdict.REFUSED, True)


def test_a_pipeline_without_speculation_passes() -> None:
    assert found(check_pipeline(staged(CPU, None))).verdict is Verdict.PASSED
    assert check_pipeline(spread(2, CPU, drafting={"method": "ngram"})) is None
    with pytest.raises(CannotJudge, match="left to vLLM"):
        check_pipeline(spread(1, GPU, pipeline_parallel=2, drafting={"model": "/d"}))


def test_the_first_of_several_nodes_passes() -> None:
    result = found(check_nodes(replace(across(), node_command="vllm serve /m --headless")))
    assert result.verdict is Verdict.PASSED
    for part in ("connected to 10.0.0.1", "Node 1 is started by: vllm serve /m --headless"):
        assert part in result.text
    assert check_nodes(spread(2)) is None


@pytest.mark.parametrize(
    "launch", [{"is_headless": True}, {"node_rank": 1}, {"num_nodes": 1, "is_headless": True}]
)
def test_a_node_that_answers_no_requests_is_refused(launch: dict[str, object]) -> None:
    result = found(check_nodes(across(**launch)))  # type: ignore[arg-type]
    assert (result.verdict, "vllm serve" in result.text) == (Verdict.REFUSED, True)


@pytest.mark.parametrize(
    ("launch", "complaint"),
    [
        ({"executor": "ray"}, "Ray finds the nodes itself"),
        ({"num_nodes": 3}, "4 workers (tensor times pipeline parallel size) cannot be divided"),
    ],
)
def test_nodes_that_vllm_refuses_are_refused(launch: dict[str, object], complaint: str) -> None:
    result = found(check_nodes(across(**launch)))  # type: ignore[arg-type]
    assert (result.verdict, complaint in result.text) == (Verdict.REFUSED, True)


def test_replicas_over_the_same_nodes_are_refused() -> None:
    result = found(check_nodes(replace(across(), num_engines=2)))
    assert (result.verdict, "Set engine.replicas to 1" in result.text) == (Verdict.REFUSED, True)


@pytest.mark.parametrize("address", ["", "127.0.0.1", "localhost"])
def test_a_loopback_address_is_a_warning(address: str) -> None:
    result = found(check_nodes(across(master_address=address)))
    assert (result.verdict, "--master-addr" in result.text) == (Verdict.WARNING, True)
