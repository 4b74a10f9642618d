"""Build the command line and the environment of one engine.

Pure: from an `EngineSpec` and a `Layout` to an argument list, which can be printed, tested, and run
in a shell.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paceline.foundation.compatibility.vllm_releases import INSTALLED
from paceline.runtime.engine.compat.drafters import refused_everywhere
from paceline.runtime.engine.launch.environment import CONTROL_SOCKET, RECORDING_FILE, SUPERVISED
from paceline.runtime.engine.launch.layout import Layout

SCHEDULER = "paceline.engine.AdaptiveScheduler"

WARM_CORE = "paceline.runtime.engine.process.warm_core"
"""Module that runs the API server's module, whose name follows."""

_OWNED_FLAGS = {
    "--model": "set MODEL (engine.model)",
    "--served-model-name": "set engine.served_name and engine.aliases",
    "--uds": "Paceline reaches its engines over its own sockets",
    "--scheduler-cls": "to serve without the governor, set engine.policy to off",
    "--additional-config": "set engine.policy and its parameters (docs/policies.md)",
    "--api-key": "engines listen on private sockets only, without a key",
}
"""vLLM's flags that Paceline sets itself, and what to do instead."""

_SPECULATION_FLAGS = frozenset(
    {"--speculative-config", "-sc", "--spec-method", "--spec-model", "--spec-tokens"}
)
"""Allowed where Paceline configures no drafter itself."""

_SERVER_FILES = {
    "vllm.entrypoints.launchers.api_server.entry": "entrypoints/launchers/api_server/entry.py",
    "vllm.entrypoints.openai.api_server": "entrypoints/openai/api_server.py",
}
"""Modules of the API server and their files; the second name was used before vLLM 0.32."""


class EngineMissing(Exception):
    """vLLM is not installed, or Paceline cannot start the installed one."""


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """What one engine serves."""

    model: str
    """Folder or Hugging Face name."""
    served_name: str
    """The first id of the model."""
    speculative_config: Mapping[str, Any] | None
    """Value of vLLM's --speculative-config; None serves without speculation."""
    policy: str
    policy_parameters: Mapping[str, Any] = field(default_factory=dict)
    draft_length: int | None = None
    schedule: tuple[tuple[int, int, int], ...] | None = None
    aliases: tuple[str, ...] = ()
    """Further ids of the same model."""
    max_model_len: int | None = None
    time_per_output_token_ms: float | None = None
    max_pause_ms: float | None = None
    reproducible_seeds: bool = False
    separate_tenants: bool = False
    """Whether API keys are set: drafts from other requests' answers are then refused."""
    compact_json: bool = False
    """Whether structured outputs have no optional white space in JSON."""
    expected_kernels: tuple[str, ...] = ()
    """Kernels that the linear layers should run, for the check after loading."""
    vllm_args: tuple[str, ...] = ()
    """The user's own arguments for vLLM. They come last and override Paceline's; ValueError for
    flags that Paceline must set itself."""

    def __post_init__(self) -> None:
        for flag in flags_of(self.vllm_args):
            owned = _owned_flag(flag)
            if owned is not None:
                raise ValueError(
                    f"engine.vllm_args has {flag}, which Paceline sets itself; remove it: "
                    f"{_OWNED_FLAGS[owned]}"
                )
            if flag in _SPECULATION_FLAGS and self.speculative_config is not None:
                raise ValueError(
                    f"engine.vllm_args has {flag}, but Paceline already configures the drafter; "
                    "remove it and set engine.draft, or set engine.draft to none to use your own"
                )
        method = _given_method(self.vllm_args)
        why_refused = None if method is None else refused_everywhere(method)
        if why_refused is not None:
            raise ValueError(
                f"engine.vllm_args has the speculative method {method}, which cannot be governed: "
                f"it {why_refused}. Choose another method, or set engine.draft"
            )

    @property
    def is_speculative(self) -> bool:
        """Whether Paceline or the user configures a drafter."""
        return self.speculative_config is not None or any(
            flag in _SPECULATION_FLAGS for flag in flags_of(self.vllm_args)
        )


@dataclass(frozen=True, slots=True)
class EngineCommand:
    """The process to start for one engine, and where it listens."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    """Variables added to the inherited environment."""
    socket: Path
    control_socket: Path | None
    """None without speculation, because there is nothing to govern."""
    serves_undrafted: bool = False
    """Whether the engine serves `min_p` and `logit_bias` also if it speculates: on CPUs."""
    swapped_draft: str | None = None
    """The drafter as an operator has given it at run time; None for that of the settings."""
    draft: str = field(init=False)
    """The drafter: the folder or name of the draft model, else the method, else none."""
    aliases: tuple[str, ...] = field(init=False)
    """Further ids under which the engine serves its model."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "aliases", _aliases_of(self.arguments))
        object.__setattr__(self, "draft", _draft_of(self.arguments))


def render_command(
    spec: EngineSpec,
    layout: Layout,
    run_folder: Path,
    name: str,
    server_module: str,
    *,
    recording_folder: Path | None = None,
) -> EngineCommand:
    """Return the command for the engine called `name`, with its sockets in `run_folder`.

    Its recordings are made in `recording_folder`; None refuses them.
    """
    socket = run_folder / f"{name}.sock"
    control_socket = run_folder / f"{name}.control.sock"
    paths = {CONTROL_SOCKET: str(control_socket)}
    if recording_folder is not None:
        paths[RECORDING_FILE] = str(recording_folder / f"{name}.recording.jsonl")
    governed: dict[str, Any] = {"policy": spec.policy}
    if spec.policy_parameters:
        governed["policy_parameters"] = dict(spec.policy_parameters)
    if spec.draft_length is not None:
        governed["draft_length"] = spec.draft_length
    if spec.schedule is not None:
        governed["schedule"] = [list(entry) for entry in spec.schedule]
    if spec.time_per_output_token_ms is not None:
        governed["time_per_output_token_ms"] = spec.time_per_output_token_ms
    if spec.max_pause_ms is not None:
        governed["max_pause_ms"] = spec.max_pause_ms
    if spec.reproducible_seeds:
        governed["reproducible_seeds"] = True
    if spec.separate_tenants:
        governed["separate_tenants"] = True
    if spec.compact_json:
        governed["compact_json"] = True
    if spec.expected_kernels:
        governed["expected_kernels"] = list(spec.expected_kernels)
    arguments = [
        *(sys.executable, "-m", *([WARM_CORE] if layout.cpu_ids else []), server_module),
        *("--model", spec.model),
        *("--served-model-name", spec.served_name, *spec.aliases),
        *("--uds", str(socket)),
        *("--scheduler-cls", SCHEDULER),
        *("--additional-config", json.dumps({"paceline": governed})),
        "--disable-uvicorn-access-log",
    ]
    if spec.speculative_config is not None:
        arguments += ["--speculative-config", json.dumps(dict(spec.speculative_config))]
    if spec.max_model_len is not None:
        arguments += ["--max-model-len", str(spec.max_model_len)]
    return EngineCommand(
        arguments=(*arguments, *layout.vllm_args, *spec.vllm_args),
        environment={
            # No usage statistics are sent.
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
            SUPERVISED: "1",
            # `server_module` is the Python front end; vLLM reads the variable elsewhere too.
            "VLLM_USE_RUST_FRONTEND": "0",
            **paths,
            # vLLM leaves its internal sockets there when it is killed.
            "TMPDIR": str(run_folder),
            **layout.environment,
        },
        socket=socket,
        control_socket=control_socket if spec.is_speculative else None,
        serves_undrafted=bool(layout.cpu_ids),
    )


def find_server_module() -> str:
    """Return the module of the installed vLLM's API server, without importing vLLM."""
    spec = importlib.util.find_spec("vllm")
    if spec is None or not spec.submodule_search_locations:
        raise EngineMissing(
            "vLLM is not installed. Install it with Paceline: pip install 'paceline[cpu]' for "
            "machines without a GPU, 'paceline[cuda]' for NVIDIA GPUs"
        )
    folder = Path(spec.submodule_search_locations[0])
    for module, file in _SERVER_FILES.items():
        if (folder / file).is_file():
            return module
    raise EngineMissing(
        f"the vLLM in {folder} has no API server that Paceline knows; install vLLM {INSTALLED}"
    )


def num_workers(vllm_args: tuple[str, ...]) -> int:
    """Return the worker processes of one engine on this machine, by the user's vLLM arguments.

    Tensor times pipeline parallel size, divided by the number of nodes.
    """
    sizes = (("--tensor-parallel-size", "-tp"), ("--pipeline-parallel-size", "-pp"))
    product = math.prod(_size(vllm_args, *flags) for flags in sizes)
    return max(1, product // num_nodes(vllm_args))


def num_nodes(vllm_args: tuple[str, ...]) -> int:
    """Return the machines of one engine, by the user's vLLM arguments."""
    return _size(vllm_args, "--nnodes", "-n")


def _size(vllm_args: tuple[str, ...], *flags: str) -> int:
    """The number that vLLM takes for a flag; 1 if it is not given, or for vLLM to refuse."""
    text = last_value(vllm_args, *flags) or ""
    return max(1, int(text)) if text.isdigit() else 1


_GPU_FLAGS = frozenset(
    {
        *("--device-ids", "--data-parallel-size", "-dp", "--nnodes", "-n", "--config"),
        *("--prefill-context-parallel-size", "-pcp"),
    }
)


def chooses_gpus(vllm_args: tuple[str, ...]) -> bool:
    """Whether the user's vLLM arguments may need other GPUs than `num_workers` on this machine."""
    given = flags_of(vllm_args)
    executor = last_value(vllm_args, "--distributed-executor-backend")
    return executor == "ray" or any(flag in _GPU_FLAGS or _abbreviates(flag) for flag in given)


def _abbreviates(flag: str) -> bool:
    """Whether vLLM reads it as a number of GPUs and `num_workers` does not."""
    sizes = ("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size")
    return flag.startswith("--") and flag not in sizes and any(s.startswith(flag) for s in sizes)


def max_num_seqs(vllm_args: tuple[str, ...]) -> int | None:
    """Return the limit on running requests in the user's vLLM arguments; None if they set none."""
    given = [text for _, text in _values_of(vllm_args, ("--max-num-seqs",)) if text.isdigit()]
    return int(given[-1]) if given else None


def last_value(vllm_args: tuple[str, ...], *flags: str) -> str | None:
    """Return the value that vLLM takes for a flag with these names; None if it is not given."""
    found = _values_of(vllm_args, flags)
    return found[-1][1] if found else None


def _given_method(vllm_args: tuple[str, ...]) -> str | None:
    """Return the speculative method that the user's vLLM arguments name; None if they name none.

    Invalid JSON is left for vLLM to report.
    """
    flags = ("--spec-method", "--speculative-config", "-sc")
    for flag, text in _values_of(vllm_args, flags):
        if flag == "--spec-method":
            return text
        try:
            given = json.loads(text)
        except ValueError:
            continue
        if isinstance(given, dict) and isinstance(given.get("method"), str):
            return str(given["method"])
    return None


def _draft_of(arguments: tuple[str, ...]) -> str:
    """Return what the arguments of a server say of its drafter; see `EngineCommand.draft`."""
    text = last_value(arguments, "--speculative-config", "-sc")
    if text is None:
        model = last_value(arguments, "--spec-model")
        return model or last_value(arguments, "--spec-method") or "none"
    try:
        config = json.loads(text)
    except ValueError:  # the user's own, for vLLM to report
        return text
    named = config if isinstance(config, dict) else {}
    return str(named.get("model") or named.get("method") or text)


def _aliases_of(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """Return the ids after the first one; an engine that was taken over has only its arguments."""
    if "--served-model-name" not in arguments:
        return ()
    ids = arguments[arguments.index("--served-model-name") + 1 :]
    return tuple(itertools.takewhile(lambda word: not word.startswith("-"), ids))[1:]


def _values_of(vllm_args: tuple[str, ...], flags: tuple[str, ...]) -> list[tuple[str, str]]:
    """Return each of `flags` that is given, with its value, in order."""
    found = []
    for index, argument in enumerate(vllm_args):
        _, separator, value = argument.partition("=")
        if _flag(argument) in flags:
            following = "".join(vllm_args[index + 1 : index + 2])
            found.append((_flag(argument), value if separator else following))
    return found


def flags_of(vllm_args: tuple[str, ...]) -> list[str]:
    """Return the flags among vLLM's arguments, normalised as vLLM's parser does."""
    return [_flag(argument) for argument in vllm_args if argument.startswith("-")]


def _flag(argument: str) -> str:
    """Normalise: vLLM reads `--a_b=c` as `--a-b c`, and `--config.key c` as part of `--config`."""
    return argument.partition("=")[0].partition(".")[0].replace("_", "-")


def _owned_flag(flag: str) -> str | None:
    """Return the owned flag that `flag` abbreviates: vLLM's parser accepts unambiguous prefixes."""
    if flag in _OWNED_FLAGS:
        return flag
    if not flag.startswith("--") or flag == "--":
        return None
    return next((owned for owned in _OWNED_FLAGS if owned.startswith(flag)), None)
