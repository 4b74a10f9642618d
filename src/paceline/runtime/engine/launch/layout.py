"""Choose how an engine uses a machine: number format, threads, processes and KV cache.

A pure decision from a `Hardware` value, with the reason of each choice; the measurements are in
docs/experiments/vllm-on-cpus.md. It concerns CPUs; on a GPU vLLM's own defaults apply.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from paceline.foundation.capacity.kv_cache import cpu_kv_cache_bytes
from paceline.foundation.compatibility.cpu_formats import choose_cpu_dtype
from paceline.runtime.engine.fixes import numba_pool
from paceline.runtime.engine.launch.environment import for_engine_core
from paceline.runtime.engine.launch.hardware import Hardware
from paceline.runtime.engine.launch.visible_gpus import share_of_gpus, show_only

_MIN_CORES_TO_SPARE_ONE = 8
"""Chosen empirically. The front end and the engine's own Python need part of a core. On two cores,
keeping one free costs 44 against 31 ms per step; on eight it costs an eighth at most."""

_OPENMP_SPIN_MS = 1
"""How long an idle compute thread spins before it sleeps (Intel's default is 200). On small
machines the front end and the scheduler need the cores on which threads spin."""

_MODEL_RUNNER_V1 = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
"""The fixes of CPU sampling, the resting drafter and drafts that end early are for this one. vLLM
may choose V2 on CPUs too where Triton runs (vllm #55847)."""

EAGER = "--enforce-eager"
EAGER_ENVIRONMENT = {"TORCHDYNAMO_DISABLE": "1"}
"""`--enforce-eager` leaves one function that vLLM compiles anyway, on the first request with log
probabilities: the ranks of the chosen tokens. Inductor needs `g++`, 10 s or more of processor time
at each start, and 156 MB of temporary files for it."""


@dataclass(frozen=True, slots=True)
class LayoutSettings:
    """What the configuration sets; None and "auto" leave the choice to `choose_layout`."""

    dtype: str = "auto"
    num_threads: int | None = None
    kv_cache_bytes: int | None = None
    weights_bytes: int | None = None
    """Size of the target on disk; None if unknown."""
    num_workers: int = 1
    """Worker processes of one engine on this machine."""
    spans_nodes: bool = False
    """Whether the engine has workers on other machines."""
    chooses_gpus: bool = False
    """Whether the user's vLLM arguments choose GPUs, or need others than `num_workers`."""
    kernel_dtypes: tuple[str, ...] = ()
    """What the kernel of the model's weights is compiled for; empty: any dtype."""
    kv_cache_dtype: str = "auto"
    """Format of keys and values: `auto` is that of the arithmetic."""
    compiles: bool | None = None
    """Whether a model on a CPU is compiled; None: where the machine has what that needs."""


@dataclass(frozen=True, slots=True)
class Layout:
    """How one engine uses the machine."""

    dtype: str
    vllm_args: tuple[str, ...]
    environment: Mapping[str, str]
    cpu_ids: tuple[int, ...]
    """CPUs for its compute threads; empty on a GPU."""
    reasons: tuple[str, ...]
    """One sentence per choice, for the log and the operator."""


def choose_layout(
    hardware: Hardware,
    settings: LayoutSettings,
    *,
    replica: int = 0,
    num_replicas: int = 1,
) -> Layout:
    """Return the layout of engine number `replica` of `num_replicas` that share the machine.

    Raises ValueError for a setting that this machine cannot meet; it says what is allowed.
    """
    if hardware.device == "gpu":
        return _gpu_layout(hardware, settings, replica, num_replicas)
    cpu_ids = _share_of_cores(hardware, replica, num_replicas, settings.num_threads)
    dtype, why_dtype = _choose_dtype(hardware, settings)
    kv_cache_bytes, why_kv = _choose_kv_cache(hardware, settings, num_replicas)
    environment, why_processes = _processes(
        hardware, cpu_ids, settings.num_workers, settings.spans_nodes
    )
    compiles, why_compiled = _choose_compilation(hardware, settings)
    return Layout(
        dtype=dtype,
        vllm_args=(
            *("--dtype", dtype),
            *(() if compiles else (EAGER,)),
            *("--kv-cache-memory-bytes", str(kv_cache_bytes)),
            *_kv_cache_dtype(settings),
        ),
        environment={
            **environment,
            **_MODEL_RUNNER_V1,
            **numba_pool.ENVIRONMENT,
            **({} if compiles else EAGER_ENVIRONMENT),
        },
        cpu_ids=cpu_ids,
        reasons=(
            why_dtype,
            f"compute threads on CPUs {', '.join(map(str, cpu_ids))}: one per physical core",
            why_processes,
            why_kv,
            why_compiled,
        ),
    )


def _gpu_layout(
    hardware: Hardware, settings: LayoutSettings, replica: int, num_replicas: int
) -> Layout:
    vllm_args: list[str] = []
    if settings.dtype != "auto":
        vllm_args += ["--dtype", settings.dtype]
    if settings.kv_cache_bytes is not None:
        vllm_args += ["--kv-cache-memory-bytes", str(settings.kv_cache_bytes)]
    vllm_args += _kv_cache_dtype(settings)
    has_its_own = num_replicas > 1 and not settings.chooses_gpus
    share = (
        share_of_gpus(hardware.assignable_gpus, replica, num_replicas, settings.num_workers)
        if has_its_own
        else ()
    )
    return Layout(
        dtype=settings.dtype,
        vllm_args=tuple(vllm_args),
        environment=show_only(share),
        cpu_ids=(),
        reasons=(
            "GPU: vLLM's own defaults",
            *(("each engine has GPUs of its own",) if share else ()),
        ),
    )


def _share_of_cores(
    hardware: Hardware, replica: int, num_replicas: int, num_threads: int | None
) -> tuple[int, ...]:
    """Return an equal run of adjacent cores; with many cores, one is kept for other threads."""
    num_cores = hardware.num_cores
    if num_replicas > num_cores:
        raise ValueError(
            f"replicas is {num_replicas}; each engine needs a core, and this machine has "
            f"{num_cores}. Set replicas to at most {num_cores}"
        )
    usable = hardware.cpu_ids[:num_cores]
    if num_cores >= _MIN_CORES_TO_SPARE_ONE:
        usable = usable[1:]
    share = len(usable) // num_replicas
    cores = usable[replica * share : (replica + 1) * share]
    if num_threads is None:
        return cores
    if num_threads > len(hardware.cpu_ids) // num_replicas:
        raise ValueError(
            f"num_threads is {num_threads}; this machine has {len(hardware.cpu_ids)} cores for "
            f"{num_replicas} engine(s). Set engine.num_threads to at most "
            f"{len(hardware.cpu_ids) // num_replicas}, or remove it"
        )
    first = replica * (len(hardware.cpu_ids) // num_replicas)
    return hardware.cpu_ids[first : first + num_threads]


def _choose_dtype(hardware: Hardware, settings: LayoutSettings) -> tuple[str, str]:
    if settings.dtype != "auto":
        return settings.dtype, f"{settings.dtype}: as configured"
    return choose_cpu_dtype(hardware.cpu_flags, settings.kernel_dtypes)


def _choose_compilation(hardware: Hardware, settings: LayoutSettings) -> tuple[bool, str]:
    if settings.compiles is not None:
        return settings.compiles, f"{'' if settings.compiles else 'not '}compiled: as configured"
    if hardware.why_not_compiled:
        return False, f"not compiled, so that steps are slower: {hardware.why_not_compiled}"
    return True, "compiled: a first start takes longer, and every step is faster"


def _kv_cache_dtype(settings: LayoutSettings) -> tuple[str, ...]:
    if settings.kv_cache_dtype == "auto":
        return ()
    return ("--kv-cache-dtype", settings.kv_cache_dtype)


def _choose_kv_cache(
    hardware: Hardware, settings: LayoutSettings, num_replicas: int
) -> tuple[int, str]:
    if settings.kv_cache_bytes is not None:
        return (
            settings.kv_cache_bytes,
            f"KV cache of {_mib(settings.kv_cache_bytes)}: as configured",
        )
    chosen = cpu_kv_cache_bytes(
        hardware.available_memory_bytes,
        weights_bytes=settings.weights_bytes,
        num_replicas=num_replicas,
    )
    return chosen, f"KV cache of {_mib(chosen)}: a share of the free memory, within bounds"


def _processes(
    hardware: Hardware, cpu_ids: tuple[int, ...], num_workers: int, spans_nodes: bool
) -> tuple[dict[str, str], str]:
    """Return the environment that sets processes and the cores of their threads; and the reason."""
    preloaded = {}
    if hardware.architecture == "x86_64" and hardware.openmp_library is not None:
        preloaded = {"LD_PRELOAD": str(hardware.openmp_library)}
    if num_workers > 1 or spans_nodes or not preloaded:
        # Several workers, or GNU OpenMP: vLLM starts worker processes and binds their threads. Its
        # own choice needs a NUMA node for each worker.
        shares = _split_cores(cpu_ids, num_workers)
        binding = "|".join(",".join(map(str, share)) for share in shares)
        return {
            **preloaded,
            "VLLM_CPU_NUM_OF_RESERVED_CPU": "0",
            "VLLM_CPU_OMP_THREADS_BIND": binding,
        }, f"model in {num_workers} worker process(es) with compute threads on CPUs {binding}"
    proclist = ",".join(map(str, cpu_ids))
    return {
        # The model runs inside the engine-core process, which saves a message between processes
        # per step and one import of torch at start. vLLM avoids that on CPUs because it cannot
        # configure OpenMP in a running process; the environment can.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        **preloaded,
        "OMP_NUM_THREADS": str(len(cpu_ids)),
        "KMP_BLOCKTIME": str(_OPENMP_SPIN_MS),
        "KMP_TPAUSE": "0",
        **for_engine_core({"KMP_AFFINITY": f"granularity=fine,explicit,proclist=[{proclist}]"}),
    }, "model inside the engine-core process: no message between processes at each step"


def _split_cores(cpu_ids: tuple[int, ...], num_workers: int) -> list[tuple[int, ...]]:
    """Return an equal run of adjacent cores for each worker; a remainder stays free.

    Workers wait for each other in every layer, so one with more cores would only wait longer.
    """
    share = len(cpu_ids) // num_workers
    if share == 0:
        raise ValueError(
            f"the engine has {num_workers} worker processes on this machine (tensor times pipeline "
            f"parallel size, divided by --nnodes), and {len(cpu_ids)} CPU(s) for their threads; "
            "each worker needs one. Lower the sizes after --, engine.replicas, or raise "
            "engine.num_threads"
        )
    return [cpu_ids[index * share : (index + 1) * share] for index in range(num_workers)]


def _mib(num_bytes: int) -> str:
    return f"{num_bytes / 1024**2:,.0f} MiB"
