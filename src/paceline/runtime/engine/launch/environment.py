"""Environment variables through which the launcher reaches vLLM's processes.

Binding compute threads to cores is for the engine-core process only. Intel's OpenMP reads the
binding once, from the environment, and pins the thread that asks first: in vLLM's API server that
would be the event loop, and with it every process the server starts. The variables therefore have a
prefix until the API server is about to start the engine core.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping

SUPERVISED = "PACELINE_SUPERVISED"
"""Set in the environment of engines that Paceline supervises."""

CONTROL_SOCKET = "PACELINE_CONTROL_SOCKET"
RECORDING_FILE = "PACELINE_RECORDING_FILE"
"""Paths that differ between two engines or two starts of one. They are no part of
`--additional-config`, because vLLM looks up compiled models by a hash of its configuration: with
them in it, each start would compile the model anew."""

ENGINE_CORE_PREFIX = "PACELINE_CORE_ENV_"
"""Prefix of variables that only the engine core receives under their own names."""


def for_engine_core(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables as they are given to the API server, with the prefix."""
    return {ENGINE_CORE_PREFIX + name: value for name, value in variables.items()}


def unwrap_engine_core_variables(environ: MutableMapping[str, str] = os.environ) -> None:
    """Set the prefixed variables under their own names, for processes started from now on.

    Called in every vLLM process; without such variables it does nothing. Mutates `environ`.
    """
    given = {name: value for name, value in environ.items() if name.startswith(ENGINE_CORE_PREFIX)}
    if not given:
        return
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.get_num_threads()  # makes OpenMP read the environment before it is changed
    for name, value in given.items():
        environ[name.removeprefix(ENGINE_CORE_PREFIX)] = value
