"""Versions of vLLM, torch, Ray and the driver."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.runtime.serve.startup_checks.checks.installation import (
    check_driver,
    check_ray,
    check_torch,
    check_vllm,
)
from paceline.runtime.serve.startup_checks.engine_launch import EngineLaunch
from paceline.runtime.serve.startup_checks.facts import StartupFacts, TorchBuild
from paceline.runtime.serve.startup_checks.values import CannotJudge, Found, Verdict
from unit.serve.startup_checks.machines import CPU, GPU


def with_packages(facts: StartupFacts, **changes: object) -> StartupFacts:
    installation = replace(facts.installation, **changes)  # type: ignore[arg-type]
    return replace(facts, installation=installation)


def with_ray(facts: StartupFacts, version: str | None = "2.48.0") -> StartupFacts:
    launch = EngineLaunch("/models/target", {}, executor="ray")
    return with_packages(replace(facts, launch=launch), ray_version=version)


def found(result: Found | None) -> Found:
    assert result is not None
    return result


@pytest.mark.parametrize("release", ["0.32.0", "0.32.1+cpu", "0.33.0"])
def test_known_releases_of_vllm_pass(release: str) -> None:
    assert check_vllm(with_packages(CPU, vllm_release=release)).verdict is Verdict.PASSED


@pytest.mark.parametrize("release", ["0.26.0", "0.3.0", "1.0.0"])
def test_other_releases_of_vllm_are_a_warning(release: str) -> None:
    """They serve, with the parts of Paceline that fit."""
    result = check_vllm(with_packages(CPU, vllm_release=release))
    assert result.verdict is Verdict.WARNING
    for part in (release, "0.32", "0.33", "vllm-hooks.md"):
        assert part in result.text


def test_an_unknown_release_is_not_judged() -> None:
    with pytest.raises(CannotJudge):
        check_vllm(with_packages(CPU, vllm_release=""))


def test_torch_has_to_be_the_one_that_vllm_was_built_for() -> None:
    assert check_torch(CPU).verdict is Verdict.PASSED
    assert check_torch(GPU).verdict is Verdict.PASSED
    other = check_torch(with_packages(GPU, torch=TorchBuild("2.12.1+cu130", (13, 0))))
    assert other.verdict is Verdict.WARNING
    assert "2.12.1+cu130" in other.text
    assert "torch 2.13.0" in other.text


def test_a_torch_for_cpus_under_a_vllm_for_gpus_is_a_warning() -> None:
    result = check_torch(with_packages(GPU, torch=TorchBuild("2.13.0+cpu", None)))
    assert (result.verdict, "no CUDA" in result.text) == (Verdict.WARNING, True)
    rocm = with_packages(GPU, torch=TorchBuild("2.13.0+rocm7.0", None, is_rocm=True))
    assert check_torch(rocm).verdict is Verdict.PASSED


@pytest.mark.parametrize("changes", [{"torch": None}, {"torch_pins": ()}])
def test_torch_is_not_judged_without_both_versions(changes: dict[str, object]) -> None:
    with pytest.raises(CannotJudge):
        check_torch(with_packages(CPU, **changes))


def test_a_driver_of_an_older_cuda_is_refused() -> None:
    facts = with_packages(GPU, driver_cuda=(12, 8))
    result = found(check_driver(facts))
    assert result.verdict is Verdict.REFUSED
    for part in ("CUDA 13.0", "driver 580 or later", "driver 580.65.06", "CUDA 12.8 at most"):
        assert part in result.text


@pytest.mark.parametrize(
    ("built_with", "driver_cuda"),
    [((12, 8), (12, 4)), ((13, 1), (13, 0)), ((12, 8), (13, 0)), ((13, 0), (13, 2))],
)
def test_a_driver_runs_all_minor_versions_of_its_cuda_and_older_ones(
    built_with: tuple[int, int], driver_cuda: tuple[int, int]
) -> None:
    torch = TorchBuild("2.13.0", built_with)
    facts = with_packages(GPU, torch=torch, driver_cuda=driver_cuda)
    assert found(check_driver(facts)).verdict is Verdict.PASSED


def test_a_missing_driver_is_a_warning_and_a_silent_one_no_verdict() -> None:
    missing = found(check_driver(with_packages(GPU, driver_cuda=None, lacks_driver=True)))
    assert (missing.verdict, "libcuda.so.1" in missing.text) == (Verdict.WARNING, True)
    with pytest.raises(CannotJudge):
        check_driver(with_packages(GPU, driver_cuda=None))


def test_cpus_and_rocm_need_no_nvidia_driver() -> None:
    assert check_driver(CPU) is None
    rocm = TorchBuild("2.13.0+rocm7.0", None, is_rocm=True)
    assert check_driver(with_packages(GPU, torch=rocm, driver_cuda=None)) is None


def test_ray_on_cpus_is_refused_with_vllms_reason() -> None:
    result = found(check_ray(with_ray(CPU)))
    assert result.verdict is Verdict.REFUSED
    assert "--distributed-executor-backend ray" in result.text
    assert "does not support ray" in result.text
    ranks = EngineLaunch("/models/target", {}, data_parallel_backend="ray")
    assert "--data-parallel-backend ray" in found(check_ray(replace(CPU, launch=ranks))).text


def test_ray_has_to_be_installed() -> None:
    result = found(check_ray(with_ray(GPU, None)))
    assert (result.verdict, "pip install" in result.text) == (Verdict.REFUSED, True)
    assert found(check_ray(with_ray(GPU))).verdict is Verdict.PASSED
    assert check_ray(GPU) is None


@pytest.mark.parametrize(
    ("version", "is_first", "verdict"),
    [
        ("2.42.1", True, Verdict.REFUSED),
        ("2.43.0", True, Verdict.PASSED),
        ("2.42.1", False, Verdict.PASSED),
    ],
)
def test_the_first_ray_executor_needs_a_later_ray(
    version: str, is_first: bool, verdict: Verdict
) -> None:
    facts = with_packages(with_ray(GPU, version), uses_first_ray_executor=is_first)
    assert found(check_ray(facts)).verdict is verdict
