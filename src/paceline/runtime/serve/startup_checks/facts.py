"""`StartupFacts`: what the checks are functions of. None and empty values are facts not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from paceline.foundation.compatibility.cuda_drivers import CudaVersion
from paceline.foundation.models.model_folder import PairFacts
from paceline.runtime.engine.launch.visible_gpus import Gpu
from paceline.runtime.serve.startup_checks.engine_launch import EngineLaunch


@dataclass(frozen=True, slots=True)
class TorchBuild:
    """The installed torch, as its version file says."""

    version: str
    """With the local part, such as 2.13.0+cpu."""
    cuda: CudaVersion | None
    """What it was built with; None for builds without CUDA."""
    is_rocm: bool = False


@dataclass(frozen=True, slots=True)
class Installation:
    """The packages of this environment, and the driver."""

    vllm_release: str = ""
    torch_pins: tuple[str, ...] = ()
    """The exact versions of torch, one of which the installed vLLM requires."""
    torch: TorchBuild | None = None
    ray_version: str | None = None
    """None if Ray is not installed."""
    driver_cuda: CudaVersion | None = None
    """The newest CUDA that the driver's library supports."""
    lacks_driver: bool = False
    """Whether the driver's library is known to be missing."""
    uses_first_ray_executor: bool = False
    """Whether the environment selects vLLM's older Ray executor."""


@dataclass(frozen=True, slots=True)
class EngineMemory:
    """Bytes that an engine needs, on each GPU or for each worker process on a CPU."""

    weights_bytes: int
    draft_weights_bytes: int
    working_bytes: int
    """Activations, graphs and what else the processes allocate: an estimate."""
    kv_cache_bytes: int | None
    """Of the whole cache; None where it gets what is left, on GPUs."""
    request_kv_bytes: int
    """Of one request of the longest context, at least."""
    max_model_len: int


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that a server writes to, and what is free there."""

    path: str
    holds: str
    """What is written, in words."""
    free_bytes: int
    needed_bytes: int
    setting: str
    """What moves it."""


@dataclass(frozen=True, slots=True)
class StartupFacts:
    """The settings and the machine."""

    device: Literal["cpu", "gpu"]
    installation: Installation
    num_engines: int
    """0 if only remote replicas are served."""
    launch: EngineLaunch | None = None
    """The engines' command line; None without engines."""
    pair: PairFacts | None = None
    memory: EngineMemory | None = None
    why_no_memory: str = ""
    """Why `memory` is not known."""
    available_bytes: int = 0
    """Free main memory, within the control group's limit."""
    has_running_engines: bool = False
    """Whether engines of the server that is taken over hold memory and continue."""
    gpus: tuple[Gpu, ...] = ()
    """The visible ones."""
    has_shared_gpus: bool = True
    """Whether several engines would use the same GPUs."""
    links: Mapping[tuple[int, int], str] | None = None
    """How two GPUs are connected, by their indices, in the words of `nvidia-smi topo`."""
    tensor_parallel_sizes: tuple[int, ...] = ()
    """Into how many parts the target can be split."""
    draft_tensor_parallel_sizes: tuple[int, ...] = ()
    """Into how many parts the draft model can be split."""
    shared_memory_bytes: int | None = None
    """Size of /dev/shm."""
    descriptors: tuple[int, int] | None = None
    """The limit of this process, and what the settings may need."""
    folders: tuple[Folder, ...] = ()
    format_cautions: tuple[str, ...] = ()
    node_command: str = ""
    """The shell command of the second node; empty for an engine on one machine."""
