"""Find out whether everything that a start opens can be opened, before it opens anything.

`paceline serve` and `paceline serve --check` call the same function, so both end with the same exit
code. It leaves nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from paceline.foundation.files.writable import check_writable_folder
from paceline.foundation.models.model_folder import ModelUnfit
from paceline.runtime.engine.launch.command import EngineCommand
from paceline.runtime.gateway.preparation import check_addresses, check_files
from paceline.runtime.serve.plan import ServePlan
from paceline.runtime.serve.startup_checks.engine_launch import EngineLaunch, read_launch
from paceline.runtime.serve.startup_checks.reading.model_cache import is_missing_offline

_MAX_SOCKET_PATH_BYTES = 107
"""sockaddr_un on Linux: 108 bytes with the final zero."""
_ENGINE_SOCKET_BYTES = 37
"""vLLM names the sockets between its processes by a UUID, in the engine's temporary folder."""


def check_startable(plan: ServePlan, environ: Mapping[str, str]) -> None:
    """Raise what keeps the plan from being started: `KeysUnusable`, `CaptureUnusable`,
    `HostUnknown`, `ModelUnfit` or ValueError, all of which are faults of the settings.

    `environ` is what the engines inherit. Whether the ports are free is checked later, by
    `find_taken_ports`, because that may change at any time.
    """
    for engine in plan.engines:
        _check_sockets(engine.command, environ)
        _check_models(read_launch(engine.command.arguments), environ)
    if plan.engines:
        try:
            check_writable_folder(plan.log_folder)
        except OSError as error:
            raise ValueError(
                f"the folder of the logs, {plan.log_folder}, cannot be written: {error.strerror}; "
                "set engine.log_folder to one where files can be created"
            ) from None
    check_files(plan.gateway)
    check_addresses(plan.gateway)


def _check_sockets(command: EngineCommand, environ: Mapping[str, str]) -> None:
    """Raise ValueError if the path of a socket is longer than the system allows."""
    sockets = (command.socket, command.control_socket or command.socket)
    longest = max(len(path.name) + 1 for path in sockets)
    if "VLLM_RPC_BASE_PATH" not in environ:
        longest = max(longest, _ENGINE_SOCKET_BYTES)
    length, allowed = len(bytes(command.socket.parent)), _MAX_SOCKET_PATH_BYTES - longest
    if length > allowed:
        raise ValueError(
            f"the folder of the sockets, {command.socket.parent}, has {length} bytes; it may have "
            f"{allowed}, because longer paths of sockets are refused. Set TMPDIR to a shorter one"
        )


def _check_models(launch: EngineLaunch, environ: Mapping[str, str]) -> None:
    """Raise `ModelUnfit` for a path at which nothing is, in the user's own arguments too, and for
    a model that would have to be fetched although that is switched off."""
    for model in (launch.model, launch.drafting.get("model")):
        if not isinstance(model, str):
            continue
        if model.startswith(("/", "./", "../", "~")) and not Path(model).exists():
            raise ModelUnfit(f"{model}, in engine.vllm_args, does not exist; give a model folder")
        if is_missing_offline(model, environ):
            raise ModelUnfit(
                f"{model} is not in the cache of Hugging Face, and HF_HUB_OFFLINE is set, so it "
                "cannot be fetched; give a folder, or fetch the model first"
            )
