"""Reading the machine from the kernel's files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from paceline.runtime.engine.launch.hardware import (
    one_per_core,
    parse_available_bytes,
    parse_cpu_quota,
    parse_file_cache_bytes,
    read_hardware,
    why_not_compiled,
)


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


def test_compiling_needs_a_compiler_and_pythons_headers(tmp_path: Path) -> None:
    compiler, headers = tmp_path / "c++", tmp_path / "include"
    headers.mkdir()
    environ = {"PATH": str(tmp_path), "CXX": "c++", "HOME": str(tmp_path)}
    assert why_not_compiled(environ, headers) == "the C++ compiler c++ is not installed"
    assert why_not_compiled({"PATH": str(tmp_path)}, headers).startswith("the C++ compiler g++ ")
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    assert why_not_compiled(environ, headers).startswith("Python's headers are not installed in")
    (headers / "Python.h").touch()
    assert why_not_compiled(environ, headers) == ""
    (tmp_path / "file").touch()
    blocked = {**environ, "HOME": str(tmp_path / "file")}
    assert why_not_compiled(blocked, headers).startswith(f"{tmp_path}/file/.cache/vllm, where vLLM")
    assert why_not_compiled({**blocked, "VLLM_CACHE_ROOT": str(tmp_path / "v")}, headers) == ""
    disabled = {**environ, "TORCHDYNAMO_DISABLE": "1"}
    assert why_not_compiled(disabled, headers) == "TORCHDYNAMO_DISABLE is set"
