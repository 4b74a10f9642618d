"""Turn the settings into what `paceline serve` starts on this machine.

The result is values of the parts: the gateway's settings, and a command line for each engine. All
start-up checks run here, before anything is started.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from paceline import demo
from paceline.config import BUNDLED, EngineSettings, ReplicaSettings, Settings
from paceline.engine.launch.command import (
    EngineCommand,
    EngineSpec,
    max_num_seqs,
    num_workers,
    render_command,
)
from paceline.engine.launch.format_gate import ServedFormats, choose_formats
from paceline.engine.launch.hardware import Hardware
from paceline.engine.launch.layout import LayoutSettings, choose_layout
from paceline.engine.launch.model_folder import (
    ModelUnfit,
    check_model,
    check_pair,
    served_name_of,
    weights_bytes,
)
from paceline.engine.launch.speculation import (
    Drafter,
    choose_drafter,
    name_lengths,
    uses_model_runner_v2,
)
from paceline.gateway import FleetSettings, GatewaySettings, ReplicaEntry
from paceline.gateway.settings import (
    AdmissionSettings,
    CaptureSettings,
    FailureSettings,
    KeySettings,
)
from paceline.serve.worker_count import choose_num_workers

BUNDLED_NAME = "paceline-demo"
"""Model id of the bundled pair."""


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """One engine to start."""

    name: str
    command: EngineCommand


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
    model, draft = _models(engine)
    check_model(model)
    uses_v2_runner = uses_model_runner_v2(hardware, environ)
    drafter = choose_drafter(
        draft,
        model,
        engine.draft_length_max,
        uses_v2_runner=uses_v2_runner,
        separate_tenants=settings.keys.file is not None,
    )
    if uses_v2_runner:
        drafter = name_lengths(
            drafter,
            configured=_configured_lengths(engine),
            max_num_seqs=max_num_seqs(engine.vllm_args),
        )
    formats = choose_formats(
        hardware,
        target=model,
        draft=_draft_model(drafter),
        dtype=engine.dtype,
        kv_cache_dtype=engine.kv_cache_dtype,
        vllm_args=engine.vllm_args,
    )
    spec = _engine_spec(settings, model, drafter, formats)
    layout_settings = LayoutSettings(
        dtype=engine.dtype,
        num_threads=engine.num_threads,
        kv_cache_bytes=engine.kv_cache_bytes,
        weights_bytes=weights_bytes(model),
        num_workers=num_workers(engine.vllm_args),
        kernel_dtypes=formats.kernel_dtypes,
        kv_cache_dtype=engine.kv_cache_dtype,
    )
    engines, reasons = [], [drafter.why, workers_reason, *formats.reasons]
    for index in range(engine.replicas):
        layout = choose_layout(
            hardware, layout_settings, replica=index, num_replicas=engine.replicas
        )
        name = f"engine-{index}"
        if any(entry.label == name for entry in gateway.fleet.entries):
            raise ValueError(
                f"replicas lists the name {name!r}, which is the name of a local engine; give "
                "the remote replica another name"
            )
        command = render_command(
            spec, layout, run_folder / name, name, server_module, recording_folder=log_folder
        )
        engines.append(EnginePlan(name, command))
        reasons += [reason for reason in layout.reasons if reason not in reasons]
    return ServePlan(
        gateway=gateway,
        engines=tuple(engines),
        served_name=spec.served_name,
        start_timeout_s=engine.start_timeout_s,
        max_restart_delay_s=engine.max_restart_delay_s,
        log_folder=log_folder,
        run_folder=run_folder,
        reasons=tuple(reasons),
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
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ValueError(f"key_file {file} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"key_file {file} is not a UTF-8 text file") from None


def _models(engine: EngineSettings) -> tuple[str, str]:
    """Target and drafter, with the paths of the bundled pair where it is selected."""
    if engine.model != BUNDLED:
        return engine.model, engine.draft
    target, draft = demo.target_path(), demo.draft_path()
    if not target.is_dir():
        raise ModelUnfit(
            f"the bundled pair is missing from this installation ({target}); give a MODEL, or "
            "install Paceline from a checkout that contains the pair"
        )
    if engine.draft == "auto":
        check_pair(target, draft)
        return str(target), str(draft)
    return str(target), engine.draft


def _configured_lengths(engine: EngineSettings) -> set[int]:
    """Draft lengths that the settings of the policies `fixed` and `schedule` name."""
    length = engine.policy_parameters.get("draft_length", engine.draft_length)
    schedule = engine.policy_parameters.get("schedule", engine.schedule) or ()
    return {*(() if length is None else (length,)), *(entry[2] for entry in schedule)}


def _draft_model(drafter: Drafter) -> str | None:
    """The folder or name of the draft model; None for other drafters."""
    model = (drafter.speculative_config or {}).get("model")
    return model if isinstance(model, str) else None


def _engine_spec(
    settings: Settings, model: str, drafter: Drafter, formats: ServedFormats
) -> EngineSpec:
    engine = settings.engine
    default_name = BUNDLED_NAME if engine.model == BUNDLED else served_name_of(model)
    return EngineSpec(
        model=model,
        served_name=engine.served_name or default_name,
        speculative_config=drafter.speculative_config,
        policy=engine.policy,
        policy_parameters=engine.policy_parameters,
        draft_length=engine.draft_length,
        schedule=engine.schedule,
        max_model_len=engine.max_model_len,
        time_per_output_token_ms=settings.slo.time_per_output_token_ms,
        reproducible_seeds=engine.reproducible_seeds,
        separate_tenants=settings.keys.file is not None,
        compact_json=engine.compact_json,
        expected_kernels=formats.expected_kernels,
        vllm_args=engine.vllm_args,
    )
