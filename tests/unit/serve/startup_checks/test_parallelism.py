"""Engines that are spread over several GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.runtime.serve.startup_checks.checks.parallelism import (
    check_gpu_count,
    check_nvlink,
    check_shared_memory,
    check_split,
)
from paceline.runtime.serve.startup_checks.engine_launch import EngineLaunch
from paceline.runtime.serve.startup_checks.facts import StartupFacts
from paceline.runtime.serve.startup_checks.gpu_links import parse_links
from paceline.runtime.serve.startup_checks.values import CannotJudge, Found, Verdict
from unit.serve.startup_checks.machines import CPU, GPU, MIB, gpus
from unit.serve.startup_checks.test_gpu_links import TOPOLOGIES


def spread(tensor_parallel: int, facts: StartupFacts = GPU, **launch: object) -> StartupFacts:
    given = EngineLaunch("/models/target", {}, tensor_parallel=tensor_parallel)
    return replace(facts, launch=replace(given, **launch))  # type: ignore[arg-type]


def on(machine: str, number: int, tensor_parallel: int) -> StartupFacts:
    """A machine with a recorded topology."""
    links = parse_links((TOPOLOGIES / f"{machine}.txt").read_text(encoding="utf-8"))
    return replace(spread(tensor_parallel), gpus=gpus(number), links=links)


def found(result: Found | None) -> Found:
    assert result is not None
    return result


def test_more_gpus_than_are_visible_are_refused() -> None:
    result = found(check_gpu_count(spread(4)))
    assert result.verdict is Verdict.REFUSED
    for part in ("tensor parallel 4", "4 GPU(s)", "2 are visible", "to at most 2"):
        assert part in result.text
    assert found(check_gpu_count(spread(2))).verdict is Verdict.PASSED
    assert found(check_gpu_count(spread(2, pipeline_parallel=2))).verdict is Verdict.REFUSED


@pytest.mark.parametrize(
    "launch", [{"executor": "ray"}, {"num_nodes": 2}, {"names_devices": True}, {"data_parallel": 2}]
)
def test_gpus_of_other_machines_are_not_counted(launch: dict[str, object]) -> None:
    with pytest.raises(CannotJudge):
        check_gpu_count(spread(4, **launch))


def test_without_a_list_of_gpus_nothing_is_refused() -> None:
    with pytest.raises(CannotJudge, match="could not be listed"):
        check_gpu_count(replace(spread(4), gpus=()))
    assert check_gpu_count(spread(4, CPU)) is None


def test_a_size_that_splits_no_heads_is_refused() -> None:
    result = found(check_split(replace(spread(3), tensor_parallel_sizes=(1, 2, 4))))
    assert (result.verdict, "is 3" in result.text) == (Verdict.REFUSED, True)
    assert "Allowed: 1, 2, 4" in result.text
    assert found(check_split(replace(spread(2), tensor_parallel_sizes=(1, 2)))).verdict is (
        Verdict.PASSED
    )
    assert check_split(spread(1)) is None
    with pytest.raises(CannotJudge):
        check_split(spread(2))


def test_a_size_that_does_not_split_the_draft_model_is_refused() -> None:
    """Qwen2.5-1.5B has 12 heads: the draft of a target on eight GPUs that the target allows."""
    draft = {"method": "draft_model", "model": "/models/draft"}
    facts = replace(
        spread(8, drafting=draft),
        tensor_parallel_sizes=(1, 2, 4, 8),
        draft_tensor_parallel_sizes=(1, 2, 4),
    )
    result = found(check_split(facts))
    assert result.verdict is Verdict.REFUSED
    for part in ("size is 8", "/models/draft", "only 1, 2, 4", "--draft ngram"):
        assert part in result.text
    assert found(check_split(replace(facts, draft_tensor_parallel_sizes=()))).verdict is (
        Verdict.PASSED
    )


def test_tensor_parallelism_over_pcie_is_a_warning() -> None:
    result = found(check_nvlink(on("rtx5090-x2", 2, 2)))
    assert result.verdict is Verdict.WARNING
    for part in ("tensor parallel 2", "0 and 1", "(PHB)", "--pipeline-parallel-size", "quantize"):
        assert part in result.text
    assert "more of the pairs" not in result.text


def test_the_gpus_in_use_are_judged_not_all_of_the_machine() -> None:
    assert found(check_nvlink(on("a100-pcie-x4-in-pairs", 4, 2))).verdict is Verdict.PASSED
    across = found(check_nvlink(on("a100-pcie-x4-in-pairs", 4, 4)))
    assert across.verdict is Verdict.WARNING
    assert "0 and 2" in across.text
    assert "3 more of the pairs" in across.text


def test_a_machine_with_switches_passes() -> None:
    assert found(check_nvlink(on("b300-x8", 8, 8))).verdict is Verdict.PASSED
    assert check_nvlink(on("rtx5090-x2", 2, 1)) is None


def test_links_that_are_not_shown_are_not_judged() -> None:
    with pytest.raises(CannotJudge, match="not known"):
        check_nvlink(spread(2))
    with pytest.raises(CannotJudge, match="between all GPUs"):
        check_nvlink(replace(spread(2), links={}))


def test_tensor_parallelism_across_nodes_is_a_warning() -> None:
    for launch in ({"num_nodes": 2}, {"executor": "ray"}):
        result = found(check_nvlink(spread(4, **launch)))
        assert (result.verdict, "nodes of 2 GPUs" in result.text) == (Verdict.WARNING, True)


def test_dockers_default_of_shared_memory_is_too_small_for_workers() -> None:
    small = replace(spread(2), shared_memory_bytes=64 * MIB)
    result = found(check_shared_memory(small))
    assert (result.verdict, "64 MiB" in result.text) == (Verdict.WARNING, True)
    assert "--shm-size" in result.text
    enough = replace(small, shared_memory_bytes=512 * MIB)
    assert found(check_shared_memory(enough)).verdict is Verdict.PASSED
    assert check_shared_memory(replace(spread(1), shared_memory_bytes=64 * MIB)) is None
    with pytest.raises(CannotJudge):
        check_shared_memory(spread(2))
