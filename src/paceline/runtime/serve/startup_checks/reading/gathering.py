"""Gather the facts: installed packages, driver, GPUs, folders. The shell of the start-up checks.

It imports neither torch nor vLLM: versions are read from their files. What cannot be read is left
out of the facts; nothing here raises for it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from paceline.foundation.models.model_folder import PairFacts, read_pair
from paceline.foundation.planning.sources.catalogue import Catalogue, load_catalogue
from paceline.runtime.engine.launch.brief_process import run_briefly
from paceline.runtime.engine.launch.hardware import Hardware
from paceline.runtime.engine.launch.other_nodes import render_node_command
from paceline.runtime.engine.launch.visible_gpus import has_gpus_of_its_own, smallest_used
from paceline.runtime.gateway.own_limits import descriptors_needed, raise_descriptor_limit
from paceline.runtime.serve.plan import ServePlan
from paceline.runtime.serve.startup_checks.engine_launch import EngineLaunch, read_launch
from paceline.runtime.serve.startup_checks.facts import (
    EngineMemory,
    Folder,
    StartupFacts,
)
from paceline.runtime.serve.startup_checks.gpu_links import COMMAND, parse_links
from paceline.runtime.serve.startup_checks.reading.installed_packages import read_installation
from paceline.runtime.serve.startup_checks.reading.memory_plan import (
    compute_memory,
    find_tensor_parallel_sizes,
)
from paceline.runtime.serve.startup_checks.reading.model_cache import find_download
from paceline.runtime.serve.startup_checks.values import CannotJudge

_LOG_BYTES = 100 * 1024**2
_TEMPORARY_BYTES = 10 * 1024**2
"""Both chosen empirically: logs and recordings of days, and the sockets of the engines with the
files that libraries put beside them."""


def gather_facts(
    plan: ServePlan,
    hardware: Hardware,
    *,
    environ: Mapping[str, str] = os.environ,
    has_running_engines: bool = False,
) -> StartupFacts:
    """Read what the checks of this plan need. `environ` is what the engines inherit.

    Raises the soft limit on descriptors to the hard one, as the server does. At most 20 s, if a
    driver hangs; else some 10 ms, and on GPUs a second for nvidia-smi.
    """
    launch = read_launch(plan.engines[0].command.arguments) if plan.engines else None
    is_gpu = launch is not None and hardware.device == "gpu"
    catalogue = load_catalogue()
    memory, why_no_memory = _memory(launch, hardware, catalogue, environ)
    return StartupFacts(
        device=hardware.device,
        installation=read_installation(hardware, environ, asks_driver=is_gpu),
        num_engines=len(plan.engines),
        launch=launch,
        pair=plan.pair or _given_pair(launch),
        memory=memory,
        why_no_memory=why_no_memory,
        available_bytes=hardware.available_memory_bytes,
        has_running_engines=has_running_engines,
        gpus=hardware.gpus,
        has_shared_gpus=not all(has_gpus_of_its_own(e.command.environment) for e in plan.engines),
        links=_links() if is_gpu and launch is not None and launch.tensor_parallel > 1 else None,
        tensor_parallel_sizes=find_tensor_parallel_sizes(launch, catalogue),
        draft_tensor_parallel_sizes=find_tensor_parallel_sizes(launch, catalogue, of_draft=True),
        shared_memory_bytes=_shared_memory_bytes(),
        descriptors=(
            raise_descriptor_limit(),
            descriptors_needed(plan.gateway, len(plan.engines)),
        ),
        folders=_folders(plan, launch, catalogue, environ),
        format_cautions=plan.cautions,
        node_command=_node_command(plan, launch),
    )


def _memory(
    launch: EngineLaunch | None,
    hardware: Hardware,
    catalogue: Catalogue,
    environ: Mapping[str, str],
) -> tuple[EngineMemory | None, str]:
    """The needs of an engine, or why they are not known."""
    if launch is None:
        return None, "there is no engine"
    gpu = smallest_used(hardware.gpus, launch.num_devices)
    if hardware.device == "gpu" and gpu is None:
        return None, "the memory of the GPUs is not known (nvidia-smi)"
    if hardware.device == "cpu" and environ.get("VLLM_CPU_KVCACHE_SPACE"):
        return None, "VLLM_CPU_KVCACHE_SPACE replaces the size of the KV cache"
    try:
        return compute_memory(
            launch,
            catalogue,
            gpu=gpu if hardware.device == "gpu" else None,
            available_bytes=hardware.available_memory_bytes,
        ), ""
    except CannotJudge as reason:
        return None, str(reason)
    except Exception as error:  # noqa: BLE001 - of a configuration of any content
        return None, f"the planner failed on this model: {error!r}"


def _given_pair(launch: EngineLaunch | None) -> PairFacts | None:
    """Compare target and draft of the user's own --speculative-config."""
    if launch is None or launch.draft_model is None:
        return None
    target, draft = Path(launch.model), Path(launch.draft_model)
    if not (target.is_dir() and draft.is_dir()):
        return None
    try:
        return read_pair(target, draft)
    except Exception:  # noqa: BLE001 - of tokenizer files of any content: vLLM reports it
        return None


def _node_command(plan: ServePlan, launch: EngineLaunch | None) -> str:
    if launch is None or launch.num_nodes == 1:
        return ""
    return render_node_command(plan.engines[0].command, 1)


def _links() -> dict[tuple[int, int], str] | None:
    return parse_links(run_briefly(COMMAND)[1])


def _shared_memory_bytes() -> int | None:
    try:
        return shutil.disk_usage("/dev/shm").total
    except OSError:
        return None


def _folders(
    plan: ServePlan,
    launch: EngineLaunch | None,
    catalogue: Catalogue,
    environ: Mapping[str, str],
) -> tuple[Folder, ...]:
    """The folders that this server writes to."""
    if launch is None:
        return ()
    logs = "logs and recordings of the engines"
    found = [
        _folder(plan.log_folder, logs, _LOG_BYTES, "engine.log_folder"),
        _folder(plan.run_folder, "sockets and temporary files", _TEMPORARY_BYTES, "TMPDIR"),
    ]
    for name in (launch.model, launch.draft_model):
        download = find_download(name, catalogue, environ)
        if download is not None:
            cache, num_bytes = download
            found.append(_folder(cache, f"the weights of {name}", num_bytes, "HF_HOME"))
    return tuple(folder for folder in found if folder is not None)


def _folder(path: Path, holds: str, needed_bytes: int, setting: str) -> Folder | None:
    """What is free where `path` is, or will be made; None if that is not known."""
    existing = next((one for one in (path, *path.parents) if one.is_dir()), None)
    if existing is None:
        return None
    try:
        free_bytes = shutil.disk_usage(existing).free
    except OSError:
        return None
    return Folder(str(path), holds, free_bytes, needed_bytes, setting)
