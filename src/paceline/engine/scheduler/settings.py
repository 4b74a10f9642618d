"""Parse and check the plugin's settings: the key "paceline" of vLLM's --additional-config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paceline.governor.policies.registry import POLICY_NAMES
from paceline.governor.policies.schedule import ScheduleRange, check_schedule

DEFAULT_POLICY = "goodput"

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
    """Path of the Unix socket of the control channel; None starts no channel."""
    time_per_output_token_ms: float | None = None
    """Objective for the time between two chunks of a request, kept in 99 of 100 steps: prefills are
    paced, and `goodput` and `latency` limit their draft length. None is no objective."""


_KEYS = tuple(PluginSettings.__dataclass_fields__)


def parse_settings(additional_config: object, *, max_draft_length: int) -> PluginSettings:
    """Parse the key "paceline" of vLLM's additional_config; raise ValueError if it is wrong."""
    given: Any = {}
    if isinstance(additional_config, Mapping):
        given = additional_config.get("paceline", {})
    if not isinstance(given, Mapping):
        raise ValueError(f'"paceline" is {given!r}; it must be a JSON object; {_WHERE}')
    for key in given:
        if key not in _KEYS:
            raise ValueError(
                f'"paceline" has the unknown key {key!r}; allowed are {", ".join(_KEYS)}; {_WHERE}'
            )
    policy = given.get("policy", DEFAULT_POLICY)
    if policy not in POLICY_NAMES:
        raise ValueError(f"policy is {policy!r}; allowed are {', '.join(POLICY_NAMES)}; {_WHERE}")
    schedule = given.get("schedule")
    if schedule is not None:
        if not isinstance(schedule, list | tuple):
            raise ValueError(f"schedule is {schedule!r}; it must be a list of ranges; {_WHERE}")
        if not all(isinstance(entry, list | tuple) for entry in schedule):
            raise ValueError(
                f"schedule is {schedule!r}; each entry must be [lowest, highest, draft_length]; "
                f"{_WHERE}"
            )
        schedule = tuple(check_schedule([tuple(entry) for entry in schedule]))
    if policy == "schedule" and schedule is None:
        raise ValueError(f'policy schedule needs "schedule", a list of ranges; {_WHERE}')
    return PluginSettings(
        policy=policy,
        draft_length=_check_draft_length(given.get("draft_length"), max_draft_length),
        schedule=schedule,
        control_socket=_check_socket_path(given.get("control_socket")),
        time_per_output_token_ms=_check_objective(given.get("time_per_output_token_ms")),
    )


def _check_draft_length(value: object, max_draft_length: int) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not 0 <= value <= max_draft_length:
        raise ValueError(
            f"draft_length is {value!r}; allowed is a whole number from 0 (off) to "
            f"{max_draft_length}, the engine's num_speculative_tokens; {_WHERE}"
        )
    return value


def _check_objective(value: object) -> float | None:
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 < value < float("inf"):  # type: ignore[operator]
        raise ValueError(
            f"time_per_output_token_ms is {value!r}; it must be a positive number of milliseconds; "
            f"{_WHERE}"
        )
    return float(value)  # type: ignore[arg-type]


def _check_socket_path(value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value.startswith("/"):
        raise ValueError(f"control_socket is {value!r}; it must be an absolute path; {_WHERE}")
    if len(value.encode()) > _MAX_SOCKET_PATH_BYTES:
        raise ValueError(
            f"control_socket {value!r} has {len(value.encode())} bytes; "
            f"a Unix socket path may have at most {_MAX_SOCKET_PATH_BYTES}; {_WHERE}"
        )
    return value
