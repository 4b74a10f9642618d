"""Turn the settings into what `paceline serve` starts on this machine.

The result is values of the parts: the gateway's settings, and a command line for each engine. The
models are checked here, `startup_checks` judges the rest, both before anything is started.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from paceline.foundation.files.bounded_reading import read_bounded
from paceline.foundation.models.model_folder import PairFacts
from paceline.runtime.config import ReplicaSettings, Settings
from paceline.runtime.engine.launch.hardware import Hardware
from paceline.runtime.gateway import FleetSettings, GatewaySettings, ReplicaEntry
from paceline.runtime.gateway.settings import (
    AdmissionSettings,
    CaptureSettings,
    FailureSettings,
    KeySettings,
)
from paceline.runtime.gateway.settings.names import MAX_MODEL_CHARS, is_name
from paceline.runtime.serve.engine_plan import EnginePlan, PlannedEngines, find_model, plan_engines
from paceline.runtime.serve.worker_count import choose_num_workers

_MAX_KEY_FILE_BYTES = 64 * 1024
"""More than the longest key with blanks around it."""


def _no_engines(draft: str) -> PlannedEngines:
    raise ValueError(f"this server has no engines to serve {draft}")


@dataclass(frozen=True, slots=True)
class ServePlan:
    """Everything that `paceline serve` starts."""

    gateway: GatewaySettings
    engines: tuple[EnginePlan, ...]
    served_name: str | None
    """Model id of the engines; None when there are none."""
    start_timeout_s: float
    max_restart_delay_s: float
    log_folder: Path
    run_folder: Path
    """For the folders of the engines started by this run, each named after its engine."""
    reasons: tuple[str, ...]
    """Why it is started in this way, one sentence for each choice."""
    cautions: tuple[str, ...] = ()
    """See `PlannedEngines.cautions`."""
    pair: PairFacts | None = None
    """See `PlannedEngines.pair`."""
    plan_with_draft: Callable[[str], PlannedEngines] = _no_engines
    """The same engines with another drafter, in the form of `engine.draft`. Raises `ModelUnfit` or
    ValueError if it cannot be served. Reads files, and may raise OSError."""


def make_plan(
    settings: Settings,
    hardware: Hardware,
    *,
    server_module: str | None,
    run_folder: Path,
    log_folder: Path,
    environ: Mapping[str, str] = os.environ,
) -> ServePlan:
    """Make all start-up decisions. Raises `ModelUnfit` or ValueError, which name the setting that
    cannot be met and the reason.

    `server_module` may be None if no engine is started. `environ` is what the engines inherit.
    """
    engine = settings.engine
    workers, workers_reason = choose_num_workers(settings, hardware)
    gateway = gateway_settings(settings, workers)
    if engine.replicas == 0:
        if not settings.replicas:
            raise ValueError(
                "engine.replicas is 0 and no remote replicas are configured, so there is nothing "
                "to serve; set engine.replicas (--replicas) to at least 1, or list remote servers "
                "under `replicas` in paceline.yaml"
            )
        return ServePlan(
            gateway=gateway,
            engines=(),
            served_name=None,
            start_timeout_s=engine.start_timeout_s,
            max_restart_delay_s=engine.max_restart_delay_s,
            log_folder=log_folder,
            run_folder=run_folder,
            reasons=("engine.replicas is 0: only remote replicas are served", workers_reason),
        )
    assert server_module is not None
    plan = functools.partial(
        plan_engines,
        settings,
        hardware,
        find_model(engine),  # once: a swapped draft must not change the target
        server_module=server_module,
        run_folder=run_folder,
        log_folder=log_folder,
        environ=environ,
    )
    planned = plan()
    if not is_name(planned.served_name, MAX_MODEL_CHARS):
        raise ValueError(
            "engine.served_name, by default the name of the model's folder, is no model id: it "
            f"must be 1 to {MAX_MODEL_CHARS} printable characters without a blank at either end"
        )
    for alias in engine.aliases:
        if not is_name(alias, MAX_MODEL_CHARS):
            raise ValueError(
                f"engine.aliases lists {alias[:100]!a}; a model id has 1 to {MAX_MODEL_CHARS} "
                "printable characters without a blank at either end"
            )
    for one in planned.engines:
        if any(entry.label == one.name for entry in gateway.fleet.entries):
            raise ValueError(
                f"replicas lists the name {one.name!r}, which is the name of a local engine; give "
                "the remote replica another name"
            )
    return ServePlan(
        gateway=gateway,
        engines=planned.engines,
        served_name=planned.served_name,
        start_timeout_s=engine.start_timeout_s,
        max_restart_delay_s=engine.max_restart_delay_s,
        log_folder=log_folder,
        run_folder=run_folder,
        reasons=(planned.reasons[0], workers_reason, *planned.reasons[1:]),
        cautions=planned.cautions,
        pair=planned.pair,
        plan_with_draft=lambda draft: plan(swapped_draft=draft),
    )


def gateway_settings(settings: Settings, workers: int = 1) -> GatewaySettings:
    """The gateway's settings from the configuration. Reads the key files of remote replicas."""
    entries = tuple(_entry(index, replica) for index, replica in enumerate(settings.replicas))
    fleet = FleetSettings(entries=entries, **dict(settings.fleet))
    return GatewaySettings(
        **{**dict(settings.server), "workers": workers},
        admission=AdmissionSettings(**dict(settings.admission)),
        failures=FailureSettings(**dict(settings.failures)),
        keys=KeySettings(**dict(settings.keys)),
        capture=CaptureSettings(**dict(settings.capture)),
        fleet=fleet,
    )


def _entry(index: int, replica: ReplicaSettings) -> ReplicaEntry:
    given = dict(replica)
    key_file = given.pop("key_file")
    try:
        return ReplicaEntry(**given, key=None if key_file is None else _read_key(key_file))
    except ValueError as error:
        raise ValueError(f"replicas.{index}: {error}") from None


def _read_key(file: Path) -> str:
    # No message has the path: it may be the key itself, given by mistake.
    try:
        _, content = read_bounded(file, _MAX_KEY_FILE_BYTES)
    except OSError as error:
        raise ValueError(
            f"key_file cannot be read: {error.strerror}; give the path of a file that contains the "
            "key, not the key"
        ) from None
    try:
        return content.decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise ValueError("key_file is not a UTF-8 text file") from None
