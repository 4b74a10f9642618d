"""How does the engine-core process get environment that the API server must not have?

Binding compute threads to cores is for the process that computes. Intel's OpenMP reads it once,
from the environment, and then pins the thread that asks first: in vLLM's API server that would be
its event loop, and with it everything the server starts. So the variables travel under another
name, and the API server gives them their real names just before it starts the engine core.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, MutableMapping

PREFIX = "PACELINE_CORE_ENV_"


def for_engine_core(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables as they are given to the API server."""
    return {PREFIX + name: value for name, value in variables.items()}


def pass_on(environ: MutableMapping[str, str] = os.environ) -> None:
    """Give the variables their real names, for processes started from now on.

    Called in every vLLM process; without such variables it does nothing. Mutates `environ`.
    """
    given = {name: value for name, value in environ.items() if name.startswith(PREFIX)}
    if not given:
        return
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.get_num_threads()  # OpenMP reads the environment now, before it is changed
    for name, value in given.items():
        environ[name.removeprefix(PREFIX)] = value
