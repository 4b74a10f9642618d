"""Render the command that starts the other nodes of an engine which spans several machines.

vLLM's multiprocessing executor runs on every node, with the same arguments but the node's rank. A
node other than the first has no API server: `vllm serve --headless`.
"""

from __future__ import annotations

import shlex

from paceline.runtime.engine.launch.command import EngineCommand
from paceline.runtime.engine.launch.environment import (
    CONTROL_SOCKET,
    ENGINE_CORE_PREFIX,
    RECORDING_FILE,
    SUPERVISED,
)

_OF_THE_FIRST_NODE = frozenset({SUPERVISED, CONTROL_SOCKET, RECORDING_FILE, "TMPDIR"})
"""Variables of the environment that concern the API server or its machine."""
_LEFT_OUT = ("--uds", "--node-rank", "-r")
"""Flags with a value that the other nodes do not take from the first one."""


def render_node_arguments(command: EngineCommand, node_rank: int) -> tuple[str, ...]:
    """Return the arguments of `vllm` for node `node_rank` of this engine."""
    arguments = list(command.arguments[command.arguments.index("--model") :])
    kept: list[str] = []
    while arguments:
        argument = arguments.pop(0)
        flag, separator, _ = argument.partition("=")
        if flag.replace("_", "-") in _LEFT_OUT:
            if not separator:
                arguments.pop(0)
            continue
        kept.append(argument)
    model, *others = kept[1:]
    return ("serve", model, *others, "--node-rank", str(node_rank), "--headless")


def render_node_environment(command: EngineCommand) -> dict[str, str]:
    """Return the variables to set on the other nodes, if their machines are like the first one."""
    return {
        name: value
        for name, value in command.environment.items()
        if name not in _OF_THE_FIRST_NODE and not name.startswith(ENGINE_CORE_PREFIX)
    }


def render_node_command(command: EngineCommand, node_rank: int) -> str:
    """Return the shell command for node `node_rank`."""
    variables = [
        f"{name}={shlex.quote(value)}" for name, value in render_node_environment(command).items()
    ]
    return " ".join([*variables, "vllm", shlex.join(render_node_arguments(command, node_rank))])
