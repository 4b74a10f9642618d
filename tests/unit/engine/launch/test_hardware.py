"""Reading the machine from the kernel's files."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.engine.launch.hardware import (
    one_per_core,
    parse_available_bytes,
    parse_cpu_flags,
    parse_cpu_quota,
    parse_file_cache_bytes,
    read_hardware,
)


def test_flags_of_x86_and_arm() -> None:
    assert parse_cpu_flags("model\t: x\nflags\t\t: fpu avx512_bf16\n") == {"fpu", "avx512_bf16"}
    assert parse_cpu_flags("Features\t: asimd bf16\n") == {"asimd", "bf16"}
    assert parse_cpu_flags("") == frozenset()


@pytest.mark.parametrize(
    ("cpu_max", "quota"),
    [("max 100000\n", None), ("", None), ("150000 100000\n", 1.5), ("50000 100000", 0.5)],
)
def test_quota_of_the_control_group(cpu_max: str, quota: float | None) -> None:
    assert parse_cpu_quota(cpu_max) == quota


def test_available_memory() -> None:
    assert parse_available_bytes("MemTotal: 9 kB\nMemAvailable:  3 kB\n") == 3072
    assert parse_available_bytes("") == 0


def test_hyperthreads_of_one_core_count_once() -> None:
    """Four logical CPUs on two cores, with Linux's usual numbering."""
    assert one_per_core([0, 1, 2, 3], lambda cpu: str(cpu % 2)) == (0, 1)
    assert one_per_core([2, 3], lambda cpu: str(cpu % 2)) == (2, 3)


def test_this_machine_can_be_read() -> None:
    hardware = read_hardware()
    assert 1 <= hardware.num_cores <= len(hardware.cpu_ids)
    assert hardware.available_memory_bytes > 0


def test_the_class_is_that_of_the_oldest_visible_gpu() -> None:
    gpu = replace(read_hardware(), device="gpu", gpu_capabilities=((8, 0), (8, 6), (9, 0)))
    assert gpu.hardware_class == "gpu-ampere"
    assert gpu.hardware_classes == ("gpu-ampere", "gpu-hopper")
    assert replace(gpu, gpu_capabilities=()).hardware_classes == ("gpu-other",)


def test_the_file_cache_of_a_control_group_is_given_up_when_asked() -> None:
    stat = "anon 500\nfile 900\ninactive_file 300\nactive_file 400\nslab_reclaimable 7\n"
    assert parse_file_cache_bytes(stat) == 700
    assert parse_file_cache_bytes("") == 0
