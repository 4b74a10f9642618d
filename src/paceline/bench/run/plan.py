"""What a run sends: the phases with their prompts, loads and bounds, before any request is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from paceline.bench.load.loads import Load
from paceline.bench.run.config import RunConfig
from paceline.workloads import (
    FillerText,
    Prompt,
    SamplingSettings,
    TraceEntry,
    WorkloadError,
    add_system_prompt,
    load_prompt_file,
    load_trace,
    load_workload,
    needs_filler,
    shuffle_prompts,
)


@dataclass(frozen=True, slots=True)
class PhasePlan:
    """One phase of a run; a run without phases has one."""

    name: str
    workload: str
    """For people: the workload's name or the file's."""
    load: Load
    prompts: tuple[Prompt, ...]
    temperature: float
    max_tokens: int | None
    seed: int
    start_s: float
    duration_s: float | None
    num_requests: int | None

    @property
    def end_s(self) -> float | None:
        return None if self.duration_s is None else self.start_s + self.duration_s

    def sampling(self, config: RunConfig, model: str, id_prefix: str) -> SamplingSettings:
        """The settings that all requests of the phase share."""
        return SamplingSettings(
            model=model,
            temperature=self.temperature,
            top_p=config.top_p,
            max_tokens=self.max_tokens,
            seed=self.seed,
            extra_body=config.extra_body,
            id_prefix=id_prefix,
        )


def load_entries(config: RunConfig) -> list[TraceEntry]:
    """The trace of the run; empty without one."""
    if config.trace_file is None:
        return []
    return load_trace(Path(config.trace_file), config.trace_speed)


def plan_run(
    config: RunConfig, entries: Sequence[TraceEntry], filler: FillerText | None
) -> tuple[PhasePlan, ...]:
    """The phases of a run. `filler` makes the texts of a trace that has lengths only.

    Raises WorkloadError for files that cannot be used.
    """
    if needs_filler(entries) and filler is None:
        raise ValueError("the trace has lengths only; give a filler text")
    system_prompt = _read_system_prompt(config)
    if config.phases:
        return _plan_phases(config, system_prompt)
    if config.trace_file is not None:
        prompts = [entry.prompt(number, filler) for number, entry in enumerate(entries)]
    elif config.prompts_file is not None:
        prompts = shuffle_prompts(load_prompt_file(Path(config.prompts_file)), config.seed)
    else:
        assert config.workload is not None, "measure chooses it"
        prompts = load_workload(config.workload).prompts(config.seed)
    return (
        PhasePlan(
            name="measuring",
            workload=config.workload_label,
            load=config.load,
            prompts=_with_system(prompts, system_prompt),
            temperature=config.effective_temperature,
            max_tokens=config.max_tokens,
            seed=config.seed,
            start_s=0.0,
            duration_s=config.duration_s,
            num_requests=config.num_requests,
        ),
    )


def _plan_phases(config: RunConfig, system_prompt: str | None) -> tuple[PhasePlan, ...]:
    """Phase i takes the seed + i, so that phases of one workload differ in their prompts' order."""
    plans, start_s = [], 0.0
    for number, phase in enumerate(config.phases):
        seed = config.seed + number
        if phase.prompts_file is not None:
            prompts = shuffle_prompts(load_prompt_file(Path(phase.prompts_file)), seed)
        else:
            prompts = load_workload(str(phase.workload)).prompts(seed)
        temperature = phase.effective_temperature
        plans.append(
            PhasePlan(
                name=phase.name,
                workload=phase.workload_label,
                load=phase.load,
                prompts=_with_system(prompts, system_prompt),
                temperature=temperature if config.temperature is None else config.temperature,
                max_tokens=phase.max_tokens if config.max_tokens is None else config.max_tokens,
                seed=seed,
                start_s=start_s,
                duration_s=phase.duration_s,
                num_requests=None,
            )
        )
        start_s += phase.duration_s
    return tuple(plans)


def _with_system(prompts: Sequence[Prompt], text: str | None) -> tuple[Prompt, ...]:
    return tuple(prompts if text is None else add_system_prompt(prompts, text))


def _read_system_prompt(config: RunConfig) -> str | None:
    if config.system_prompt_file is None:
        return None
    try:
        return Path(config.system_prompt_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise WorkloadError(f"cannot read {config.system_prompt_file}: {error}") from error
