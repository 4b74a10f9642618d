"""How should an engine be laid out on this machine: number format, threads, processes, memory?

A pure decision from a `Hardware` value. On a GPU everything is left to vLLM's own defaults. What
follows holds for CPUs, with the reason beside each choice; docs/experiments.md has the figures.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.engine.fixes import numba_pool
from paceline.engine.launch.core_environment import for_engine_core
from paceline.engine.launch.hardware import Hardware

_BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""Any of these multiplies bfloat16 natively (x86: the first two, Arm: the last). Without them
bfloat16 is emulated: 91 against 51 ms per step for a 139M model at batch 4 on AVX-512 VNNI."""

_CORES_FROM_WHICH_ONE_IS_SPARED = 8
"""Chosen by hand. The front end and the engine's own Python need some of a core. On two cores,
keeping one free costs 44 against 31 ms per step; on eight it costs an eighth at most."""

_KV_CACHE_SHARE = 0.25
_MAX_KV_CACHE_BYTES = 4 * 1024**3
_KV_CACHE_PER_WEIGHT = 4
_MIN_KV_CACHE_BYTES = 1024**3
"""Chosen by hand: a quarter of what is free, at most 4 GiB and at most 4 times the weights, but
1 GiB for small models. A server shares its machine, vLLM fills the cache with zeros at start, and
vLLM's own rule (92 % of all memory) refuses to start where some is in use. A size that is given
also saves the measuring pass at start."""

_OPENMP_SPIN_MS = 1
"""How long an idle compute thread spins before it sleeps (Intel's default is 200). Threads spin on
the cores that the front end and the scheduler need; long spins starve them on small machines."""


@dataclass(frozen=True, slots=True)
class LayoutWishes:
    """What the configuration asks for; None and "auto" leave it to the layout."""

    dtype: str = "auto"
    num_threads: int | None = None
    kv_cache_bytes: int | None = None
    weights_bytes: int | None = None
    """Size of the target on disk; None when it is not known yet."""
    num_workers: int = 1
    """Worker processes of one engine: tensor times pipeline parallel size."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How one engine is started."""

    dtype: str
    vllm_args: tuple[str, ...]
    environment: Mapping[str, str]
    cpu_ids: tuple[int, ...]
    """CPUs for its compute threads; empty on a GPU."""
    reasons: tuple[str, ...]
    """One sentence per decision, for the log and the operator."""


def choose_layout(
    hardware: Hardware,
    wishes: LayoutWishes,
    *,
    replica: int = 0,
    num_replicas: int = 1,
) -> Layout:
    """The layout of engine number `replica` of `num_replicas` that share the machine.

    ValueError when a wish cannot be met here; it says what is allowed.
    """
    if hardware.device == "gpu":
        return _gpu_layout(wishes)
    cpu_ids = _share_of_cores(hardware, replica, num_replicas, wishes.num_threads)
    dtype, why_dtype = _choose_dtype(hardware, wishes.dtype)
    kv_cache_bytes, why_kv = _choose_kv_cache(hardware, wishes, num_replicas)
    environment, why_processes = _processes(hardware, cpu_ids, wishes.num_workers)
    return Layout(
        dtype=dtype,
        vllm_args=(
            *("--dtype", dtype),
            # Compiling takes 80 to 100 s at every first start and gains nothing here.
            "--enforce-eager",
            *("--kv-cache-memory-bytes", str(kv_cache_bytes)),
        ),
        environment={**environment, **numba_pool.ENVIRONMENT},
        cpu_ids=cpu_ids,
        reasons=(
            why_dtype,
            f"compute threads on CPUs {', '.join(map(str, cpu_ids))}: one per physical core",
            why_processes,
            why_kv,
            "eager: compiling takes over a minute at start and does not pay on a CPU",
        ),
    )


def _gpu_layout(wishes: LayoutWishes) -> Layout:
    vllm_args: list[str] = []
    if wishes.dtype != "auto":
        vllm_args += ["--dtype", wishes.dtype]
    if wishes.kv_cache_bytes is not None:
        vllm_args += ["--kv-cache-memory-bytes", str(wishes.kv_cache_bytes)]
    return Layout(
        dtype=wishes.dtype,
        vllm_args=tuple(vllm_args),
        environment={},
        cpu_ids=(),
        reasons=("GPU: vLLM's own defaults",),
    )


def _share_of_cores(
    hardware: Hardware, replica: int, num_replicas: int, num_threads: int | None
) -> tuple[int, ...]:
    """An equal run of neighbouring cores, less one for everything else where there are many."""
    num_cores = hardware.num_cores
    if num_replicas > num_cores:
        raise ValueError(
            f"replicas is {num_replicas}; this machine has {num_cores} cores for them, and each "
            f"engine needs one. Set replicas to at most {num_cores}"
        )
    usable = hardware.cpu_ids[:num_cores]
    if num_cores >= _CORES_FROM_WHICH_ONE_IS_SPARED:
        usable = usable[1:]
    share = len(usable) // num_replicas
    cores = usable[replica * share : (replica + 1) * share]
    if num_threads is None:
        return cores
    if num_threads > len(hardware.cpu_ids) // num_replicas:
        raise ValueError(
            f"num_threads is {num_threads}; this machine has {len(hardware.cpu_ids)} cores for "
            f"{num_replicas} engine(s). Set engine.num_threads to at most "
            f"{len(hardware.cpu_ids) // num_replicas}, or leave it out"
        )
    first = replica * (len(hardware.cpu_ids) // num_replicas)
    return hardware.cpu_ids[first : first + num_threads]


def _choose_dtype(hardware: Hardware, wish: str) -> tuple[str, str]:
    if wish != "auto":
        return wish, f"{wish}: as configured"
    native = sorted(_BF16_FLAGS & hardware.cpu_flags)
    if native:
        return "bfloat16", f"bfloat16: the processor has {', '.join(native)}"
    return "float32", "float32: the processor would emulate bfloat16, which is slower"


def _choose_kv_cache(
    hardware: Hardware, wishes: LayoutWishes, num_replicas: int
) -> tuple[int, str]:
    if wishes.kv_cache_bytes is not None:
        return wishes.kv_cache_bytes, f"KV cache of {_mib(wishes.kv_cache_bytes)}: as configured"
    ceiling = _MAX_KV_CACHE_BYTES
    if wishes.weights_bytes is not None:
        by_weights = _KV_CACHE_PER_WEIGHT * wishes.weights_bytes
        ceiling = min(ceiling, max(_MIN_KV_CACHE_BYTES, by_weights))
    share = int(hardware.available_memory_bytes * _KV_CACHE_SHARE / num_replicas)
    chosen = min(share, ceiling)
    return chosen, f"KV cache of {_mib(chosen)}: a share of the free memory, within bounds"


def _processes(
    hardware: Hardware, cpu_ids: tuple[int, ...], num_workers: int
) -> tuple[dict[str, str], str]:
    """Environment that decides which processes there are and where their threads run."""
    if num_workers > 1 or hardware.architecture != "x86_64" or hardware.openmp_library is None:
        # vLLM's own worker processes, which it binds by itself (gomp, or several workers).
        binding = {"VLLM_CPU_NUM_OF_RESERVED_CPU": "0"}
        if num_workers == 1:
            binding["VLLM_CPU_OMP_THREADS_BIND"] = ",".join(map(str, cpu_ids))
        return binding, "model in worker processes of its own, bound by vLLM"
    proclist = ",".join(map(str, cpu_ids))
    return {
        # The model runs inside the engine-core process: no hop between two processes per step,
        # and one import of torch less at start. vLLM avoids that on CPUs because it cannot set
        # OpenMP up for a process that already runs; from outside it can be.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "LD_PRELOAD": str(hardware.openmp_library),
        "OMP_NUM_THREADS": str(len(cpu_ids)),
        "KMP_BLOCKTIME": str(_OPENMP_SPIN_MS),
        "KMP_TPAUSE": "0",
        **for_engine_core({"KMP_AFFINITY": f"granularity=fine,explicit,proclist=[{proclist}]"}),
    }, "model inside the engine-core process: no hop between processes at each step"


def _mib(num_bytes: int) -> str:
    return f"{num_bytes / 1024**2:,.0f} MiB"
