"""Turn the settings into a command line for each engine of this machine.

All checks of the models and their formats run here, before anything is started. The drafter may be
another one than that of the settings, because an operator can swap it at run time.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from paceline.foundation.models.model_folder import (
    ModelUnfit,
    PairFacts,
    check_model,
    served_name_of,
    weights_bytes,
)
from paceline.foundation.named_models import (
    MODEL_NAMES,
    NamedModel,
    NamedModelMissing,
    draft_of,
    drafter_folder,
    find_named,
)
from paceline.runtime.config import EngineSettings, Settings
from paceline.runtime.engine.launch.command import (
    EngineCommand,
    EngineSpec,
    chooses_gpus,
    max_num_seqs,
    num_nodes,
    num_workers,
    render_command,
)
from paceline.runtime.engine.launch.format_gate import ServedFormats, choose_formats
from paceline.runtime.engine.launch.hardware import Hardware
from paceline.runtime.engine.launch.layout import EAGER, LayoutSettings, choose_layout
from paceline.runtime.engine.launch.speculation import (
    Drafter,
    choose_drafter,
    name_lengths,
    uses_model_runner_v2,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EnginePlan:
    """One engine to start."""

    name: str
    command: EngineCommand


@dataclass(frozen=True, slots=True)
class PlannedEngines:
    """The engines to start, all with the same models."""

    engines: tuple[EnginePlan, ...]
    served_name: str
    reasons: tuple[str, ...]
    """Why they are started in this way; the first one is about the drafter."""
    cautions: tuple[str, ...] = ()
    """What the operator should know of the models' number formats."""
    pair: PairFacts | None = None
    """See `Drafter.pair`."""


def plan_engines(
    settings: Settings,
    hardware: Hardware,
    named: NamedModel,
    *,
    server_module: str,
    run_folder: Path,
    log_folder: Path,
    environ: Mapping[str, str] = os.environ,
    swapped_draft: str | None = None,
) -> PlannedEngines:
    """Plan `engine.replicas` engines. Raises `ModelUnfit` or ValueError, which name the setting
    that cannot be met and the reason.

    `named` is what `find_model` found. `swapped_draft` takes the place of `engine.draft`. `environ`
    is what the engines inherit.
    """
    engine = settings.engine
    if swapped_draft is not None:
        swapped_draft = _draft_folder(swapped_draft)
        engine = engine.model_copy(update={"draft": swapped_draft})
        settings = settings.model_copy(update={"engine": engine})
    model = named.target
    check_model(model, MODEL_NAMES)
    uses_v2_runner = uses_model_runner_v2(hardware, environ)
    is_auto = engine.draft == "auto"
    drafter = choose_drafter(
        named.draft if is_auto else drafter_folder(engine.draft),
        model,
        engine.draft_length_max,
        chosen_by=f"the drafter of {named.served_name}" if is_auto else "as configured",
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
    spec = _engine_spec(settings, named, drafter, formats)
    layout_settings = LayoutSettings(
        dtype=engine.dtype,
        num_threads=engine.num_threads,
        kv_cache_bytes=engine.kv_cache_bytes,
        weights_bytes=weights_bytes(model),
        num_workers=num_workers(engine.vllm_args),
        spans_nodes=num_nodes(engine.vllm_args) > 1,
        chooses_gpus=chooses_gpus(engine.vllm_args),
        kernel_dtypes=formats.kernel_dtypes,
        kv_cache_dtype=engine.kv_cache_dtype,
        compiles=False if EAGER in engine.vllm_args else engine.compile,
    )
    engines, reasons = [], [drafter.why, *formats.reasons]
    for index in range(engine.replicas):
        layout = choose_layout(
            hardware, layout_settings, replica=index, num_replicas=engine.replicas
        )
        name = f"engine-{index}"
        command = render_command(
            spec, layout, run_folder / name, name, server_module, recording_folder=log_folder
        )
        engines.append(EnginePlan(name, replace(command, swapped_draft=swapped_draft)))
        reasons += [reason for reason in layout.reasons if reason not in reasons]
    return PlannedEngines(
        tuple(engines), spec.served_name, tuple(reasons), formats.reasons, drafter.pair
    )


def _draft_folder(draft: str) -> str:
    """A folder as its real path, so that a link that is moved later changes no engine."""
    is_named = draft in ("auto", "none", "ngram", "suffix", *MODEL_NAMES)
    return str(Path(draft).resolve()) if not is_named and Path(draft).is_dir() else draft


def find_model(engine: EngineSettings) -> NamedModel:
    """The folder or the Hugging Face name of the target, its drafter and its name for clients.

    Converts a named model where necessary. Raises `ModelUnfit`.
    """
    try:
        named = find_named(engine.model)
    except NamedModelMissing as missing:
        raise ModelUnfit(str(missing)) from None
    if named is None:
        own = draft_of(engine.model)
        return NamedModel(engine.model, own or "auto", served_name_of(engine.model))
    if named.note:
        logger.warning("%s", named.note)
    return named


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
    settings: Settings, model: NamedModel, drafter: Drafter, formats: ServedFormats
) -> EngineSpec:
    engine = settings.engine
    return EngineSpec(
        model=model.target,
        served_name=engine.served_name or model.served_name,
        aliases=engine.aliases,
        speculative_config=drafter.speculative_config,
        policy=engine.policy,
        policy_parameters=engine.policy_parameters,
        draft_length=engine.draft_length,
        schedule=engine.schedule,
        max_model_len=engine.max_model_len,
        time_per_output_token_ms=settings.slo.time_per_output_token_ms,
        max_pause_ms=settings.slo.max_pause_ms,
        reproducible_seeds=engine.reproducible_seeds,
        separate_tenants=settings.keys.file is not None,
        compact_json=engine.compact_json,
        expected_kernels=formats.expected_kernels,
        vllm_args=engine.vllm_args,
    )
