"""Parse and check the plugin's settings: the key "paceline" of vLLM's --additional-config."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field, fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.dataclasses import dataclass

from paceline.foundation.command_line.near_names import did_you_mean
from paceline.foundation.recording.stored_costs import costs_folder
from paceline.runtime.governor.policies.builtin import DEFAULT_POLICY
from paceline.runtime.governor.policies.schedule import POLICY as SCHEDULE_POLICY
from paceline.runtime.governor.policies.schedule import ScheduleRange
from paceline.runtime.policy_registry import find_policy, load_policies

_MAX_SOCKET_PATH_BYTES = 107
"""sockaddr_un on Linux holds 108 bytes, the final zero included."""
_WHERE = "set it in --additional-config '{\"paceline\": {…}}'"


def _check_policy(name: str) -> str:
    find_policy(name)
    return name


def _check_absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("it must be an absolute path")
    return path


def _check_socket(path: str) -> str:
    if len(path.encode()) > _MAX_SOCKET_PATH_BYTES:
        raise ValueError(f"a Unix socket path has at most {_MAX_SOCKET_PATH_BYTES} bytes")
    if path:
        _check_absolute(Path(path))
    return path


_Milliseconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_AbsolutePath = Annotated[Path, Field(strict=False), AfterValidator(_check_absolute)]
_Schedule = Annotated[
    tuple[ScheduleRange, ...], BeforeValidator(SCHEDULE_POLICY.parameters[0].read)
]


@dataclass(frozen=True, slots=True, config=ConfigDict(strict=True))
class PluginSettings:
    """The plugin's settings, checked."""

    policy: Annotated[str, AfterValidator(_check_policy)] = DEFAULT_POLICY
    draft_length: Annotated[int, Field(ge=0)] | None = None
    """The length of the policy `fixed`; None is the engine's num_speculative_tokens."""
    schedule: _Schedule | None = None
    """The ranges of the policy `schedule`."""
    control_socket: Annotated[str, AfterValidator(_check_socket)] | None = None
    """Path of the Unix socket of the control channel; None is the abstract address of
    `governor_channel`, and an empty path starts no channel."""
    time_per_output_token_ms: _Milliseconds | None = None
    """Objective for the time between two chunks of a request, kept in 99 of 100 steps: prefills are
    paced, and `goodput` and `latency` limit their draft length. None is no objective."""
    max_pause_ms: _Milliseconds | None = None
    """Longest step, in 99 of 100, of running answers and prompts together, without an objective.
    Draft lengths do not keep to it, and prompts have most of the time where decodes are slow."""
    policy_parameters: dict[str, Any] = field(default_factory=dict)
    """Parameters of `policy` by name; docs/policies.md lists them."""
    reproducible_seeds: bool = False
    """Whether requests that sample with a seed are served without drafts, so that their random
    numbers do not depend on the draft length, which follows timing and other requests."""
    separate_tenants: bool = False
    """Whether the server has several tenants: drafters that draft from the answers of other
    requests are refused."""
    compact_json: bool = False
    """Whether JSON answers of structured outputs have no optional white space."""
    recording_file: _AbsolutePath | None = None
    """Path of the file for recordings, which are made on command; None refuses them."""
    costs_folder: _AbsolutePath | None = None
    """Folder of the costs that are measured when an engine starts; None measures none."""
    expected_kernels: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Classes of vLLM, one of which should compute the linear layers; empty judges none."""

    def parameters_for(self, policy: str) -> dict[str, Any]:
        """Return the parameters that these settings give to the policy called `policy`."""
        parameters = {"draft_length": self.draft_length, "schedule": self.schedule}
        given = {name: value for name, value in parameters.items() if value is not None}
        return given | self.policy_parameters if policy == self.policy else given


def parse_settings(
    additional_config: object, *, max_draft_length: int, environ: Mapping[str, str] = os.environ
) -> PluginSettings:
    """Parse the key "paceline" of vLLM's additional_config; raise ValueError if it is wrong.

    Paths that it leaves out may be in `environ`, where `paceline serve` gives them. An empty
    `costs_folder` switches measuring off; left out, it is below the user's cache folder.
    """
    given: Any = {}
    if isinstance(additional_config, Mapping):
        given = additional_config.get("paceline", {})
    load_policies()  # at start, so that switching the policy at run time imports nothing
    try:
        return _parse(given, max_draft_length, environ)
    except ValueError as error:
        reason = _describe(error) if isinstance(error, ValidationError) else error
        raise ValueError(f"{reason}; {_WHERE}") from None


def _parse(given: Any, max_draft_length: int, environ: Mapping[str, str]) -> PluginSettings:
    if not isinstance(given, Mapping):
        raise ValueError(f'"paceline" is {given!r}; it must be a JSON object')
    keys = [setting.name for setting in fields(PluginSettings)]
    unknown = [key for key in given if key not in keys]
    if unknown:
        raise ValueError(
            f'"paceline" has the unknown key {unknown[0]!r}; allowed keys: {", ".join(keys)}'
            f"{did_you_mean(unknown[0], keys)}"
        )
    defaults: dict[str, Any] = {
        "control_socket": environ.get("PACELINE_CONTROL_SOCKET"),
        "recording_file": environ.get("PACELINE_RECORDING_FILE"),
        "costs_folder": costs_folder(environ),
    }
    values = defaults | {name: value for name, value in given.items() if value is not None}
    values["costs_folder"] = values["costs_folder"] or None
    settings = PluginSettings(**values)
    length, parameters = settings.draft_length, settings.policy_parameters
    if length is not None and length > max_draft_length:
        raise ValueError(
            f"draft_length is {length}; it must be a whole number from 0 (off) to "
            f"{max_draft_length}, the engine's num_speculative_tokens"
        )
    for name in ("draft_length", "schedule"):
        if name in given and name in parameters:
            raise ValueError(
                f"{name} is given twice; remove it from policy_parameters or from the level above"
            )
    check_policy_parameters(settings, settings.policy, parameters)
    return settings


def _describe(error: ValidationError) -> str:
    """The first mistake: the setting, what was given, and what is allowed."""
    detail = error.errors()[0]
    name, message = str(detail["loc"][0]), detail["msg"].removeprefix("Value error, ")
    return message if message.startswith(name) else f"{name} is {detail['input']!r}: {message}"


def check_policy_parameters(
    settings: PluginSettings, policy: str, given: Mapping[str, Any]
) -> None:
    """Raise ValueError unless the policy called `policy` accepts the parameters `given`.

    They are checked together with those that the settings give to every policy.
    """
    definition = find_policy(policy)
    declared = {parameter.name for parameter in definition.parameters}
    shared = {
        name: value for name, value in settings.parameters_for(policy).items() if name in declared
    }
    definition.read_parameters(shared | dict(given))
