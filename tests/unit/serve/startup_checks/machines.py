"""Facts of machines on which everything fits, and GPUs to build others from."""

from __future__ import annotations

from paceline.foundation.compatibility.vocabularies import VocabularyFit
from paceline.foundation.models.model_folder import PairFacts
from paceline.runtime.engine.launch.visible_gpus import Gpu
from paceline.runtime.serve.startup_checks.engine_launch import EngineLaunch
from paceline.runtime.serve.startup_checks.facts import (
    EngineMemory,
    Installation,
    StartupFacts,
    TorchBuild,
)

MIB = 1024**2
GIB = 1024**3

SAME_TOKENS = PairFacts((4096, 4096), VocabularyFit(True, 4000, 4000))


def gpus(number: int, memory_gib: int = 80, free_gib: int | None = None) -> tuple[Gpu, ...]:
    """Equal GPUs, with all their memory free unless `free_gib` says otherwise."""
    free = memory_gib if free_gib is None else free_gib
    return tuple(
        Gpu(index, f"GPU-{index}", (9, 0), memory_gib * GIB, free * GIB, "580.65.06")
        for index in range(number)
    )


def memory(
    weights_gib: float = 16,
    *,
    draft_gib: float = 0,
    working_gib: float = 2,
    request_gib: float = 4,
    kv_gib: float | None = None,
) -> EngineMemory:
    """The needs of an engine with requests of up to 32,768 tokens."""
    return EngineMemory(
        weights_bytes=int(weights_gib * GIB),
        draft_weights_bytes=int(draft_gib * GIB),
        working_bytes=int(working_gib * GIB),
        kv_cache_bytes=None if kv_gib is None else int(kv_gib * GIB),
        request_kv_bytes=int(request_gib * GIB),
        max_model_len=32_768,
    )


CPU = StartupFacts(
    device="cpu",
    installation=Installation(
        vllm_release="0.32.0",
        torch_pins=("2.13.0+cpu", "2.13.0"),
        torch=TorchBuild("2.13.0+cpu", None),
    ),
    num_engines=1,
    launch=EngineLaunch("/models/target", {}),
    memory=memory(8, kv_gib=4),
    available_bytes=32 * GIB,
)

GPU = StartupFacts(
    device="gpu",
    installation=Installation(
        vllm_release="0.32.0",
        torch_pins=("2.13.0",),
        torch=TorchBuild("2.13.0+cu130", (13, 0)),
        driver_cuda=(13, 0),
    ),
    num_engines=1,
    launch=EngineLaunch("/models/target", {}),
    memory=memory(),
    gpus=gpus(2),
)
