"""Parse and check the plugin's settings: the key "paceline" of vLLM's --additional-config."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from paceline.governor.policies.builtin import DEFAULT_POLICY
from paceline.governor.policies.schedule import POLICY as SCHEDULE_POLICY
from paceline.governor.policies.schedule import ScheduleRange
from paceline.policy_registry import find_policy, load_policies
from paceline.stored_costs import costs_folder

_MAX_SOCKET_PATH_BYTES = 107
"""sockaddr_un on Linux holds 108 bytes, the final zero included."""
_WHERE = "set it in --additional-config '{\"paceline\": {…}}'"


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """The plugin's settings, checked."""

    policy: str = DEFAULT_POLICY
    draft_length: int | None = None
    """The length of the policy `fixed`; None is the engine's num_speculative_tokens."""
    schedule: tuple[ScheduleRange, ...] | None = None
    """The ranges of the policy `schedule`."""
    control_socket: str | None = None
    """Path of the Unix socket of the control channel; None is the abstract address of
    `governor_channel`, and an empty path starts no channel."""
    time_per_output_token_ms: float | None = None
    """Objective for the time between two chunks of a request, kept in 99 of 100 steps: prefills are
    paced, and `goodput` and `latency` limit their draft length. None is no objective."""
    max_pause_ms: float | None = None
    """Longest step, in 99 of 100, of running answers and prompts together, without an objective.
    Draft lengths do not keep to it, and prompts have most of the time where decodes are slow."""
    policy_parameters: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of `policy` by name; docs/policies.md lists them."""
    reproducible_seeds: bool = False
    """Whether requests that sample with a seed are served without drafts, so that their random
    numbers do not depend on the draft length, which follows timing and other requests."""
    separate_tenants: bool = False
    """Whether the server has several tenants: drafters that draft from the answers of other
    requests are refused."""
    compact_json: bool = False
    """Whether JSON answers of structured outputs have no optional white space."""
    recording_file: str | None = None
    """Path of the file for recordings, which are made on command; None refuses them."""
    costs_folder: str | None = None
    """Folder of the costs that are measured when an engine starts; None measures none."""
    expected_kernels: tuple[str, ...] = ()
    """Classes of vLLM, one of which should compute the linear layers; empty judges none."""

    def parameters_for(self, policy: str) -> dict[str, Any]:
        """Return the parameters that these settings give to the policy called `policy`."""
        parameters = {"draft_length": self.draft_length, "schedule": self.schedule}
        given = {name: value for name, value in parameters.items() if value is not None}
        return given | dict(self.policy_parameters) if policy == self.policy else given


_KEYS = tuple(PluginSettings.__dataclass_fields__)


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
    if not isinstance(given, Mapping):
        raise ValueError(f'"paceline" is {given!r}; it must be a JSON object; {_WHERE}')
    for key in given:
        if key not in _KEYS:
            raise ValueError(
                f'"paceline" has the unknown key {key!r}; allowed keys: {", ".join(_KEYS)}; '
                f"{_WHERE}"
            )
    paths = {
        name: given.get(name, environ.get(f"PACELINE_{name.upper()}"))
        for name in ("control_socket", "recording_file")
    }
    load_policies()  # at start, so that switching the policy at run time imports nothing
    settings = PluginSettings(
        policy=_check_name(given.get("policy", DEFAULT_POLICY)),
        draft_length=_check_draft_length(given.get("draft_length"), max_draft_length),
        schedule=_check_schedule(given.get("schedule")),
        control_socket=_check_socket_path(paths["control_socket"]),
        recording_file=_check_path("recording_file", paths["recording_file"]),
        costs_folder=_costs_folder(given.get("costs_folder"), environ),
        time_per_output_token_ms=_check_milliseconds(given, "time_per_output_token_ms"),
        max_pause_ms=_check_milliseconds(given, "max_pause_ms"),
        policy_parameters=_check_parameters(given),
        reproducible_seeds=_check_switch(given, "reproducible_seeds"),
        separate_tenants=_check_switch(given, "separate_tenants"),
        compact_json=_check_switch(given, "compact_json"),
        expected_kernels=_check_kernels(given.get("expected_kernels", ())),
    )
    try:
        check_policy_parameters(settings, settings.policy, settings.policy_parameters)
    except ValueError as error:
        raise ValueError(f"{error}; {_WHERE}") from None
    return settings


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


def _check_name(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"policy is {value!r}; it must be the name of a policy; {_WHERE}")
    try:
        find_policy(value)
    except ValueError as error:
        raise ValueError(f"{error}; {_WHERE}") from None
    return value


def _check_schedule(value: object) -> tuple[ScheduleRange, ...] | None:
    if value is None:
        return None
    [parameter] = SCHEDULE_POLICY.parameters
    try:
        checked: tuple[ScheduleRange, ...] = parameter.read(value)
    except ValueError as error:
        raise ValueError(f"{error}; {_WHERE}") from None
    return checked


def _check_parameters(given: Mapping[str, Any]) -> Mapping[str, Any]:
    value = given.get("policy_parameters", {})
    if not isinstance(value, Mapping):
        raise ValueError(
            f"policy_parameters is {value!r}; it must be a JSON object of the policy's parameters; "
            f"{_WHERE}"
        )
    twice = sorted({"draft_length", "schedule"} & set(given) & set(value))
    if twice:
        raise ValueError(
            f"{twice[0]} is given twice; remove it from policy_parameters or from the level above; "
            f"{_WHERE}"
        )
    return dict(value)


def _check_switch(given: Mapping[str, Any], name: str) -> bool:
    value = given.get(name, False)
    if not isinstance(value, bool):
        raise ValueError(f"{name} is {value!r}; it must be true or false; {_WHERE}")
    return value


def _check_draft_length(value: object, max_draft_length: int) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= max_draft_length:
        raise ValueError(
            f"draft_length is {value!r}; it must be a whole number from 0 (off) to "
            f"{max_draft_length}, the engine's num_speculative_tokens; {_WHERE}"
        )
    return value


def _check_milliseconds(given: Mapping[str, Any], name: str) -> float | None:
    value = given.get(name)
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 < value < float("inf"):
        raise ValueError(
            f"{name} is {value!r}; it must be a positive number of milliseconds; {_WHERE}"
        )
    return float(value)


def _check_kernels(value: object) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value):
        return tuple(value)
    raise ValueError(f"expected_kernels is {value!r}; it must be a list of class names; {_WHERE}")


def _check_path(name: str, value: object) -> str | None:
    if value is None or (isinstance(value, str) and value.startswith("/")):
        return value
    raise ValueError(f"{name} is {value!r}; it must be an absolute path; {_WHERE}")


def _costs_folder(value: object, environ: Mapping[str, str]) -> str | None:
    return _check_path("costs_folder", (costs_folder(environ) if value is None else value) or None)


def _check_socket_path(value: object) -> str | None:
    if value is None or value == "":
        return None if value is None else ""
    if not isinstance(value, str) or not value.startswith("/"):
        raise ValueError(f"control_socket is {value!r}; it must be an absolute path; {_WHERE}")
    if len(value.encode()) > _MAX_SOCKET_PATH_BYTES:
        raise ValueError(
            f"control_socket {value!r} has {len(value.encode())} bytes; "
            f"a Unix socket path may have at most {_MAX_SOCKET_PATH_BYTES}; {_WHERE}"
        )
    return value
