"""Weights, KV cache and working memory against this machine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline.runtime.serve.startup_checks.checks.memory import check_memory
from paceline.runtime.serve.startup_checks.engine_launch import EngineLaunch
from paceline.runtime.serve.startup_checks.facts import StartupFacts
from paceline.runtime.serve.startup_checks.values import CannotJudge, Found, Verdict
from unit.serve.startup_checks.machines import CPU, GIB, GPU, gpus, memory


def judged(facts: StartupFacts) -> Found:
    result = check_memory(facts)
    assert result is not None
    return result


def launched(**changes: object) -> EngineLaunch:
    return replace(EngineLaunch("/models/target", {}), **changes)  # type: ignore[arg-type]


def test_a_cpu_with_room_passes_and_shows_the_sizes() -> None:
    """8 GiB of weights, 4 of KV cache and 2 of working memory: 14 of 32."""
    result = judged(CPU)
    assert result.verdict is Verdict.PASSED
    for part in ("14.0 GiB", "weights 8.0 GiB", "KV cache 4.0 GiB", "32.0 GiB are free"):
        assert part in result.text


@pytest.mark.parametrize(
    ("free_gib", "num_engines", "text"),
    [
        (14, 1, None),
        (13, 1, "may not fit"),
        (11, 1, "do not fit"),
        (28, 2, None),
        (25, 2, "may not fit"),
        (23, 2, "do not fit"),
    ],
)
def test_weights_and_cache_are_exact_and_working_memory_is_an_estimate(
    free_gib: int, num_engines: int, text: str | None
) -> None:
    facts = replace(CPU, available_bytes=free_gib * GIB, num_engines=num_engines)
    result = judged(facts)
    assert result.verdict is (Verdict.PASSED if text is None else Verdict.WARNING)
    if text is not None:
        assert text in result.text
        assert f"{free_gib}.0 GiB are free" in result.text
        assert "engine.kv_cache_bytes" in result.text


def test_a_context_that_the_cache_cannot_hold_is_a_warning() -> None:
    """32,768 tokens take 4 GiB: a cache of 1 GiB holds a quarter of them."""
    result = judged(replace(CPU, memory=memory(8, kv_gib=1)))
    assert result.verdict is Verdict.WARNING
    for part in ("32,768 tokens takes 4.0 GiB", "has 1.0 GiB", "below 8,192"):
        assert part in result.text


def test_memory_that_engines_hold_already_is_not_judged() -> None:
    """Engines that are taken over keep their caches, whatever this start would choose."""
    small = memory(8, kv_gib=1)
    with pytest.raises(CannotJudge):
        check_memory(replace(CPU, memory=small, has_running_engines=True))
    with pytest.raises(CannotJudge):
        check_memory(replace(CPU, available_bytes=0))


def test_a_model_that_the_planner_does_not_know_is_not_judged() -> None:
    with pytest.raises(CannotJudge, match="no shape"):
        check_memory(replace(CPU, memory=None, why_no_memory="no shape"))
    with pytest.raises(CannotJudge, match="no shape"):
        check_memory(replace(GPU, memory=None, why_no_memory="no shape"))


def test_a_gpu_with_room_passes() -> None:
    """92 % of 80 GiB, less 16 of weights and 2 of working memory: 55.6 are left."""
    result = judged(GPU)
    assert result.verdict is Verdict.PASSED
    assert "55.6 GiB for the KV cache" in result.text


@pytest.mark.parametrize(
    ("weights_gib", "verdict", "text"),
    [
        (74, Verdict.REFUSED, "the weights do not fit: weights 74.0 GiB"),
        (70.5, Verdict.WARNING, "of KV cache, which has 3.1 GiB"),
        (69, Verdict.WARNING, "leave 2.6 GiB"),
        (67, Verdict.PASSED, "4.6 GiB for the KV cache"),
    ],
)
def test_what_the_weights_leave_has_to_hold_one_request(
    weights_gib: float, verdict: Verdict, text: str
) -> None:
    """73.6 GiB may be used, and a request takes 4."""
    result = judged(replace(GPU, memory=memory(weights_gib)))
    assert result.verdict is verdict
    assert text in result.text


def test_a_cache_of_a_given_size_is_beside_the_weights() -> None:
    """vLLM then ignores --gpu-memory-utilization: 74 and 5 GiB of 80 fit, 74 and 7 do not."""
    assert judged(replace(GPU, memory=memory(74, kv_gib=5))).verdict is Verdict.PASSED
    result = judged(replace(GPU, memory=memory(74, kv_gib=7)))
    assert (result.verdict, "KV cache 7.0 GiB" in result.text) == (Verdict.REFUSED, True)
    small = judged(replace(GPU, memory=memory(16, kv_gib=2)))
    assert (small.verdict, "raise engine.kv_cache_bytes" in small.text) == (Verdict.WARNING, True)


def test_a_draft_model_takes_memory_too() -> None:
    result = judged(replace(GPU, memory=memory(70, draft_gib=4)))
    assert (result.verdict, "draft 4.0 GiB" in result.text) == (Verdict.REFUSED, True)


def test_two_engines_cannot_take_most_of_the_same_gpu() -> None:
    result = judged(replace(GPU, num_engines=2))
    assert result.verdict is Verdict.WARNING
    for part in ("engine.replicas is 2", "takes 0.92", "at most 0.5", "CUDA_VISIBLE_DEVICES"):
        assert part in result.text
    own = replace(GPU, num_engines=2, has_shared_gpus=False)
    assert judged(own).verdict is Verdict.PASSED
    busy = (*gpus(1), replace(gpus(1, free_gib=10)[0], index=1))
    assert judged(replace(own, gpus=busy)).verdict is Verdict.WARNING
    half = launched(gpu_memory_utilization=0.5)
    assert judged(replace(GPU, num_engines=2, launch=half)).verdict is Verdict.PASSED


@pytest.mark.parametrize(
    "changes", [{"executor": "ray"}, {"unplanned_flags": ("--config",)}], ids=["ray", "config"]
)
def test_gpus_that_others_assign_are_not_judged(changes: dict[str, Any]) -> None:
    with pytest.raises(CannotJudge):
        check_memory(replace(GPU, num_engines=2, launch=launched(**changes)))


def test_memory_that_other_processes_hold_is_a_warning() -> None:
    """They may end before vLLM asks."""
    busy = replace(GPU, gpus=gpus(1, free_gib=70))
    result = judged(busy)
    assert (result.verdict, "only 70.0 GiB" in result.text) == (Verdict.WARNING, True)
    assert judged(replace(busy, has_running_engines=True)).verdict is Verdict.PASSED


def test_of_unequal_gpus_the_largest_count() -> None:
    """CUDA puts the fastest first, which the list may not."""
    unequal = (*gpus(1, 2), *gpus(1, 80))
    assert judged(replace(GPU, gpus=unequal)).verdict is Verdict.PASSED
    both = replace(GPU, gpus=unequal, launch=launched(tensor_parallel=2))
    assert judged(both).verdict is Verdict.REFUSED


def test_gpus_whose_memory_is_not_stated_are_not_judged() -> None:
    shared = replace(gpus(1)[0], memory_bytes=None, free_bytes=None)
    with pytest.raises(CannotJudge):
        check_memory(replace(GPU, gpus=(shared,)))


def test_without_engines_no_memory_is_needed() -> None:
    assert check_memory(replace(CPU, launch=None)) is None
