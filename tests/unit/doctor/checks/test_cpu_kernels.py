"""Kernels on processors that could do more."""

from __future__ import annotations

import dataclasses

import pytest

from paceline.operations.doctor.checks import cpu_kernels
from paceline.operations.doctor.readings.local_cpu import LocalCpu
from paceline.operations.doctor.values import Basis, CannotJudge, Severity
from unit.doctor.gateways import observe_gateway
from unit.doctor.simulated import observe_vllm

VNNI = frozenset({"avx2", "avx512f", "avx512_vnni"})
AMX = VNNI | {"avx512_bf16", "amx_tile", "amx_bf16"}
WITHOUT_VNNI = frozenset({"avx2", "avx512f"})
INT8 = (
    "INFO 11-23 12:00:05 [__init__.py:847] Selected CPUInt8ScaledMMLinearKernel for "
    "CompressedTensorsW8A8Int8"
)
AWQ = "INFO 11-23 12:00:05 [__init__.py:923] Using CPUWNA16LinearKernel for mixed-precision linear"
FP8 = (
    "INFO 11-23 12:00:05 [__init__.py:759] Selected ChannelWiseTorchFP8ScaledMMLinearKernel for "
    "CompressedTensorsW8A8Fp8"
)
OWN = (
    "INFO 11-23 12:00:09 [linear_kernels.py:52] Kernels: CPUInt8ScaledMMLinearKernel (oneDNN) in 24"
)
VERSION = "0.32.0"


def config(device: str = "cpu", dtype: str = "bfloat16") -> str:
    return (
        "INFO 11-23 12:00:05 [core.py:93] Initializing a V1 LLM engine with config: model='m', "
        f"dtype=torch.{dtype}, kv_cache_dtype=auto, device_config={device}, seed=0"
    )


def cpu(flags: frozenset[str], *libraries: str) -> LocalCpu:
    return LocalCpu(flags, frozenset(libraries))


@pytest.mark.parametrize("line", [INT8, f"{OWN} layers"])
def test_int8_without_vnni_is_slow_and_with_it_is_not(line: str) -> None:
    old = cpu(WITHOUT_VNNI, "_C_AVX512")
    observation = observe_vllm(version=VERSION, log_lines=[config(), line], local_cpu=old)
    (finding,) = cpu_kernels.CHECK.judge(observation)
    assert (finding.id, finding.severity) == ("cpu-kernel-slow", Severity.WARNING)
    assert "CPUInt8ScaledMMLinearKernel on a CPU with AVX-512 and without VNNI" in finding.summary
    assert finding.cost.basis is Basis.UNKNOWN
    new = cpu(VNNI, "_C_AVX512")
    observation = observe_vllm(version=VERSION, log_lines=[config(), line], local_cpu=new)
    assert not cpu_kernels.CHECK.judge(observation)


@pytest.mark.parametrize("flags", [(), ("fp", "asimd", "asimddp", "i8mm", "bf16")])
def test_a_processor_without_the_flags_of_x86_is_not_taken_for_an_old_one(
    flags: tuple[str, ...],
) -> None:
    """Arm has other instructions for INT8; /proc/cpuinfo may be unreadable."""
    here = cpu(frozenset(flags), "_C")
    observation = observe_vllm(version=VERSION, log_lines=[config(), INT8], local_cpu=here)
    assert not cpu_kernels.CHECK.judge(observation)


def test_a_kernel_that_is_slow_on_every_cpu_needs_no_look_at_the_processor() -> None:
    observation = observe_vllm(version=VERSION, log_lines=[config(), FP8, FP8])
    (finding,) = cpu_kernels.CHECK.judge(observation)
    assert "ChannelWiseTorchFP8ScaledMMLinearKernel on a CPU" in finding.summary


@pytest.mark.parametrize("line", [INT8, AWQ])
def test_a_kernel_that_is_slow_on_some_cpus_is_no_finding_without_the_processor(line: str) -> None:
    observation = observe_vllm(version=VERSION, log_lines=[config(), line])
    assert not cpu_kernels.CHECK.judge(observation)


def test_the_same_kernel_on_a_gpu_is_no_finding() -> None:
    observation = observe_vllm(version=VERSION, log_lines=[config("cuda"), FP8])
    assert not cpu_kernels.CHECK.judge(observation)


def test_kernels_of_a_governor_are_judged_without_a_log() -> None:
    states = {"r0": {"kernels": {"CPUInt8ScaledMMLinearKernel (oneDNN)": 24}}, "r1": {}}
    entries = ({"name": "r0", "version": VERSION},)
    observation = observe_gateway(governors=(states,), entries=entries)
    assert not cpu_kernels.CHECK.judge(observation)
    here = dataclasses.replace(observation, local_cpu=cpu(WITHOUT_VNNI, "_C_AVX512"))
    (finding,) = cpu_kernels.CHECK.judge(here)
    assert finding.subject == "r0"


@pytest.mark.parametrize(
    ("kernel", "is_judged"),
    [("MarlinLinearKernel", True), ("ChannelWiseTorchFP8ScaledMMLinearKernel", False)],
)
def test_a_kernel_of_gpus_and_cpus_is_not_judged_without_the_device(
    kernel: str, is_judged: bool
) -> None:
    states, entries = {"r0": {"kernels": {kernel: 24}}}, ({"name": "r0", "version": VERSION},)
    observation = observe_gateway(governors=(states,), entries=entries)
    if is_judged:
        assert not cpu_kernels.CHECK.judge(observation)
        return
    with pytest.raises(CannotJudge, match="whether it computes on a CPU"):
        cpu_kernels.CHECK.judge(observation)


@pytest.mark.parametrize(
    ("flags", "loaded", "is_slow"),
    [
        (VNNI, ("_C_AVX2",), True),
        (AMX, ("_C_AVX512",), True),
        (AMX, ("_C_AVX2", "_C"), False),
        (VNNI, ("_C_AVX512",), False),
        (frozenset({"avx2"}), ("_C_AVX2",), False),
        (frozenset({"asimd", "bf16"}), ("_C",), False),
    ],
)
def test_a_library_for_fewer_instructions_than_the_processor_has_is_found(
    flags: frozenset[str], loaded: tuple[str, ...], is_slow: bool
) -> None:
    findings = cpu_kernels.CHECK.judge(observe_vllm(local_cpu=cpu(flags, *loaded)))
    assert [one.id for one in findings] == (["cpu-kernel-slow"] if is_slow else [])


@pytest.mark.parametrize(
    ("flags", "dtype", "is_found"),
    [(AMX, "float32", True), (AMX, "bfloat16", False), (VNNI, "float32", False)],
)
def test_float32_on_a_processor_that_multiplies_bfloat16_is_a_remark(
    flags: frozenset[str], dtype: str, is_found: bool
) -> None:
    observation = observe_vllm(log_lines=[config(dtype=dtype)], local_cpu=cpu(flags, "_C"))
    findings = cpu_kernels.CHECK.judge(observation)
    assert [(one.id, one.severity) for one in findings] == (
        [("cpu-dtype-slow", Severity.INFO)] if is_found else []
    )


def test_without_a_log_and_on_another_machine_it_is_not_judged() -> None:
    with pytest.raises(CannotJudge, match="give --log, or run the doctor on its machine"):
        cpu_kernels.CHECK.judge(observe_vllm(version=VERSION))
