"""The layout of an engine on machines with different processors, cores and memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from paceline.runtime.engine.launch.hardware import Hardware
from paceline.runtime.engine.launch.layout import LayoutSettings, choose_layout
from paceline.runtime.engine.launch.visible_gpus import Gpu

GIB = 1024**3
IOMP = Path("/env/lib/libiomp5.so")
TWO_CORES = Hardware(
    device="cpu",
    architecture="x86_64",
    cpu_flags=frozenset({"avx2", "avx512f", "avx512_vnni"}),
    cpu_ids=(0, 1),
    cpu_quota=None,
    available_memory_bytes=8 * GIB,
    openmp_library=IOMP,
)
DEFAULTS = LayoutSettings()


@pytest.mark.parametrize(
    ("flags", "dtype"),
    [
        ({"avx2"}, "float32"),
        ({"avx512f", "avx512_vnni"}, "float32"),
        ({"avx512f", "avx512_bf16"}, "bfloat16"),
        ({"amx_bf16", "amx_tile"}, "bfloat16"),
        ({"asimd", "bf16"}, "bfloat16"),
    ],
)
def test_bfloat16_is_chosen_only_with_native_instructions(flags: set[str], dtype: str) -> None:
    hardware = replace(TWO_CORES, cpu_flags=frozenset(flags))
    layout = choose_layout(hardware, DEFAULTS)
    assert layout.dtype == dtype
    assert layout.vllm_args[:2] == ("--dtype", dtype)


def test_a_configured_dtype_is_kept() -> None:
    assert choose_layout(TWO_CORES, LayoutSettings(dtype="bfloat16")).dtype == "bfloat16"


def test_both_of_two_cores_compute() -> None:
    layout = choose_layout(TWO_CORES, DEFAULTS)
    assert layout.cpu_ids == (0, 1)
    assert layout.environment["OMP_NUM_THREADS"] == "2"
    binding = layout.environment["PACELINE_CORE_ENV_KMP_AFFINITY"]
    assert binding == "granularity=fine,explicit,proclist=[0,1]"
    assert "KMP_AFFINITY" not in layout.environment


def test_one_of_eight_cores_is_spared() -> None:
    layout = choose_layout(replace(TWO_CORES, cpu_ids=tuple(range(8))), DEFAULTS)
    assert layout.cpu_ids == (1, 2, 3, 4, 5, 6, 7)


def test_a_quota_bounds_the_threads() -> None:
    """2.5 CPUs of time on eight cores: two threads, because a third would be throttled."""
    hardware = replace(TWO_CORES, cpu_ids=tuple(range(8)), cpu_quota=2.5)
    assert choose_layout(hardware, DEFAULTS).cpu_ids == (0, 1)


def test_a_quota_below_one_cpu_still_leaves_a_thread() -> None:
    assert choose_layout(replace(TWO_CORES, cpu_quota=0.5), DEFAULTS).cpu_ids == (0,)


def test_replicas_share_the_cores_without_overlap() -> None:
    hardware = replace(TWO_CORES, cpu_ids=tuple(range(6)))
    layouts = [
        choose_layout(hardware, DEFAULTS, replica=index, num_replicas=3) for index in range(3)
    ]
    assert [layout.cpu_ids for layout in layouts] == [(0, 1), (2, 3), (4, 5)]


@pytest.mark.parametrize(
    ("settings", "num_replicas", "message"),
    [
        (DEFAULTS, 3, "Set replicas to at most 2"),
        (LayoutSettings(num_threads=3), 1, "Set engine.num_threads to at most 2"),
        (LayoutSettings(num_threads=2), 2, "Set engine.num_threads to at most 1"),
    ],
)
def test_more_threads_than_cores_are_refused(
    settings: LayoutSettings, num_replicas: int, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        choose_layout(TWO_CORES, settings, num_replicas=num_replicas)


def test_configured_threads_may_use_the_spared_core() -> None:
    hardware = replace(TWO_CORES, cpu_ids=tuple(range(8)))
    assert choose_layout(hardware, LayoutSettings(num_threads=8)).cpu_ids == tuple(range(8))


@pytest.mark.parametrize(
    ("free_bytes", "weights_bytes", "expected"),
    [
        (64 * GIB, None, 4 * GIB),  # the absolute limit
        (8 * GIB, None, 2 * GIB),  # a quarter of the free memory
        (64 * GIB, 60 * 1024**2, GIB),  # the limit of a small model
        (64 * GIB, GIB // 2, 2 * GIB),  # four times the weights
        (2 * GIB, 60 * 1024**2, GIB // 2),  # a quarter, below that limit
    ],
)
def test_the_kv_cache_is_limited_by_memory_and_by_the_model(
    free_bytes: int, weights_bytes: int | None, expected: int
) -> None:
    hardware = replace(TWO_CORES, available_memory_bytes=free_bytes)
    layout = choose_layout(hardware, LayoutSettings(weights_bytes=weights_bytes))
    at = layout.vllm_args.index("--kv-cache-memory-bytes")
    assert layout.vllm_args[at + 1] == str(expected)


def test_one_worker_runs_inside_the_engine_core_with_intels_openmp() -> None:
    environment = choose_layout(TWO_CORES, DEFAULTS).environment
    assert environment["VLLM_ENABLE_V1_MULTIPROCESSING"] == "0"
    assert environment["LD_PRELOAD"] == str(IOMP)


@pytest.mark.parametrize(
    ("hardware", "settings", "binding"),
    [
        (replace(TWO_CORES, openmp_library=None), DEFAULTS, "0,1"),
        (replace(TWO_CORES, architecture="aarch64"), DEFAULTS, "0,1"),
        (TWO_CORES, LayoutSettings(num_workers=2), "0|1"),
        (replace(TWO_CORES, cpu_ids=tuple(range(7))), LayoutSettings(num_workers=3), "0,1|2,3|4,5"),
        (TWO_CORES, LayoutSettings(spans_nodes=True), "0,1"),
        (TWO_CORES, LayoutSettings(spans_nodes=True, num_threads=1), "0"),
    ],
)
def test_worker_processes_get_cores_of_their_own(
    hardware: Hardware, settings: LayoutSettings, binding: str
) -> None:
    """vLLM's own binding refuses more workers than NUMA nodes, and leaves a core free."""
    environment = choose_layout(hardware, settings).environment
    assert environment["VLLM_CPU_NUM_OF_RESERVED_CPU"] == "0"
    assert "VLLM_ENABLE_V1_MULTIPROCESSING" not in environment
    assert environment["VLLM_CPU_OMP_THREADS_BIND"] == binding


def test_worker_processes_get_intels_openmp_where_it_is_installed() -> None:
    two = LayoutSettings(num_workers=2)
    assert choose_layout(TWO_CORES, two).environment["LD_PRELOAD"] == str(IOMP)
    without = replace(TWO_CORES, openmp_library=None)
    assert "LD_PRELOAD" not in choose_layout(without, two).environment


@pytest.mark.parametrize(
    "settings",
    [LayoutSettings(num_workers=3), LayoutSettings(num_workers=2, num_threads=1)],
)
def test_more_workers_than_cores_are_refused(settings: LayoutSettings) -> None:
    with pytest.raises(ValueError, match="each worker needs one"):
        choose_layout(TWO_CORES, settings)


NO_COMPILER = replace(TWO_CORES, why_not_compiled="the C++ compiler g++ is not installed")


@pytest.mark.parametrize(
    ("hardware", "setting", "reason"),
    [
        (TWO_CORES, None, "compiled: a first start takes longer"),
        (NO_COMPILER, None, "not compiled, so that steps are slower: the C++ compiler g++ is"),
        (NO_COMPILER, True, "compiled: as configured"),
        (TWO_CORES, False, "not compiled: as configured"),
    ],
)
def test_a_model_is_compiled_where_it_can_be(
    hardware: Hardware, setting: bool | None, reason: str
) -> None:
    """torch reads the variable where vLLM compiles a function in spite of the flag."""
    layout = choose_layout(hardware, LayoutSettings(compiles=setting))
    is_eager = reason.startswith("not")
    assert ("--enforce-eager" in layout.vllm_args) == is_eager
    assert ("TORCHDYNAMO_DISABLE" in layout.environment) == is_eager
    assert layout.reasons[-1].startswith(reason)


def test_a_cpu_gets_model_runner_v1() -> None:
    assert choose_layout(TWO_CORES, DEFAULTS).environment["VLLM_USE_V2_MODEL_RUNNER"] == "0"


def test_a_gpu_is_left_to_vllm() -> None:
    layout = choose_layout(replace(TWO_CORES, device="gpu"), DEFAULTS)
    assert layout.vllm_args == ()
    assert layout.environment == {}


def test_every_choice_has_a_reason() -> None:
    assert all(choose_layout(TWO_CORES, DEFAULTS).reasons)


GPUS = tuple(Gpu(index, f"GPU-{index}", (9, 0)) for index in range(4))


def gpu_environments(settings: LayoutSettings, gpus: tuple[Gpu, ...], number: int) -> list[str]:
    """CUDA_VISIBLE_DEVICES of each engine; empty where it is left as it is."""
    host = replace(TWO_CORES, device="gpu", gpus=gpus, assignable_gpus=gpus)
    layouts = [
        choose_layout(host, settings, replica=index, num_replicas=number) for index in range(number)
    ]
    for layout in layouts:
        assert ("CUDA_VISIBLE_DEVICES" in layout.environment) == (
            layout.environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID"
        )
    return [layout.environment.get("CUDA_VISIBLE_DEVICES", "") for layout in layouts]


def test_each_engine_has_gpus_of_its_own() -> None:
    assert gpu_environments(LayoutSettings(), GPUS, 4) == ["0", "1", "2", "3"]
    assert gpu_environments(LayoutSettings(num_workers=2), GPUS, 2) == ["0,1", "2,3"]
    chosen = (GPUS[3], GPUS[1])
    assert gpu_environments(LayoutSettings(), chosen, 2) == ["1", "3"]


@pytest.mark.parametrize(
    ("settings", "gpus", "number"),
    [
        (LayoutSettings(), GPUS, 1),
        (LayoutSettings(num_workers=3), GPUS, 2),
        (LayoutSettings(), (), 2),
        (LayoutSettings(chooses_gpus=True), GPUS, 2),
        (LayoutSettings(), (GPUS[0], Gpu(1, "GPU-1", (7, 5))), 2),
    ],
)
def test_engines_share_the_gpus_otherwise(
    settings: LayoutSettings, gpus: tuple[Gpu, ...], number: int
) -> None:
    assert gpu_environments(settings, gpus, number) == [""] * number
