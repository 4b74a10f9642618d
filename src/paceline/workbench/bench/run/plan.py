"""What a run sends: the phases with their prompts, loads and bounds, before any request is sent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload

from paceline.foundation.load.config import RunConfig, TraceFacts
from paceline.foundation.load.loads import Load, RecordedArrivals
from paceline.foundation.workloads import (
    FillerText,
    Prompt,
    SamplingSettings,
    TimeUnit,
    Trace,
    TraceEntry,
    WorkloadError,
    add_system_prompt,
    load_prompt_records,
    load_trace,
    load_workload,
    shuffle_prompts,
)
from paceline.foundation.workloads.record_files import read_file

_DEFAULT_SYNTHETIC = 2000
"""Different prompts of a run that only time bounds; more requests repeat them, with a warning."""
_MAX_SYNTHETIC_TOKENS = 20_000_000
"""Of all prompts of given lengths: about 80 MB of text."""


class TracePrompts(Sequence[Prompt]):
    """The prompts of a trace, each made when it is asked for: a trace of months has gigabytes."""

    def __init__(
        self, entries: Sequence[TraceEntry], filler: FillerText | None, system: str | None
    ) -> None:
        self._entries = entries
        self._filler = filler
        self._system = system

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, number: int) -> Prompt: ...
    @overload
    def __getitem__(self, number: slice) -> list[Prompt]: ...
    def __getitem__(self, number: int | slice) -> Prompt | list[Prompt]:
        if isinstance(number, slice):
            return [self[n] for n in range(*number.indices(len(self)))]
        number = range(len(self))[number]
        prompt = self._entries[number].prompt(number, self._filler)
        return prompt if self._system is None else add_system_prompt([prompt], self._system)[0]


@dataclass(frozen=True, slots=True)
class PhasePlan:
    """One phase of a run; a run without phases has one."""

    name: str
    workload: str
    """For people: the workload's name or the file's."""
    load: Load
    prompts: Sequence[Prompt]
    temperature: float
    max_tokens: int | None
    seed: int
    start_s: float
    duration_s: float | None
    num_requests: int | None
    is_once: bool = False
    """Whether each repeat sends every prompt once, and then ends."""
    num_left_out: int = 0
    """Records of the file that are not sent."""
    offsets_s: tuple[float, ...] = ()
    """When the prompts of a trace are due, (num_prompts,); empty without one."""

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


def load_run_trace(config: RunConfig) -> Trace | None:
    """The trace of the run; None without one. Raises WorkloadError."""
    if config.trace_file is None:
        return None
    unit = None if config.trace_unit is None else TimeUnit[config.trace_unit.upper()]
    trace = load_trace(Path(config.trace_file), config.trace_speed, unit, config.trace_block_tokens)
    if not trace.has_times and isinstance(config.load, RecordedArrivals):
        raise WorkloadError(
            f"{config.trace_file} states no times at which its sessions begin; give --concurrency "
            "(sessions in flight) or --rate (sessions that begin per second)"
        )
    return trace


def describe_trace(trace: Trace) -> TraceFacts:
    """How the trace was read."""
    return TraceFacts(
        form=trace.form,
        time_unit=trace.time_unit,
        duration_s=trace.duration_s,
        num_requests=sum(1 + len(entry.turns) for entry in trace.entries),
        num_sessions=len(trace.entries),
        num_left_out=trace.num_left_out,
    )


def plan_run(
    config: RunConfig, trace: Trace | None, filler: FillerText | None
) -> tuple[PhasePlan, ...]:
    """The phases of a run. `filler` makes the texts of a trace that has lengths only.

    Raises WorkloadError for files that cannot be used.
    """
    if trace is not None and trace.needs_filler and filler is None:
        raise ValueError("the trace has lengths only; give a filler text")
    system_prompt = _read_system_prompt(config)
    if config.phases:
        return _plan_phases(config, system_prompt)
    num_left_out = 0
    prompts: Sequence[Prompt]
    if trace is not None:
        prompts = TracePrompts(trace.entries, filler, system_prompt)
        num_left_out = trace.num_left_out
    elif config.synthetic is not None:
        if filler is None:
            raise ValueError("prompts of given lengths need a filler text")
        prompts = list(config.synthetic.prompts(_num_synthetic(config), config.seed, filler))
    elif config.prompts_file is not None:
        found = load_prompt_records(Path(config.prompts_file))
        prompts = shuffle_prompts(found.prompts, config.seed)
        num_left_out = found.num_left_out
    else:
        assert config.workload is not None, "measure chooses it"
        prompts = load_workload(config.workload).prompts(config.seed)
    return (
        PhasePlan(
            name="measuring",
            workload=config.workload_label,
            load=config.load,
            prompts=prompts if trace is not None else _with_system(prompts, system_prompt),
            offsets_s=(
                tuple(entry.due_s or 0.0 for entry in trace.entries) if trace is not None else ()
            ),
            temperature=config.effective_temperature,
            max_tokens=config.max_tokens,
            seed=config.seed,
            start_s=0.0,
            duration_s=config.duration_s,
            num_requests=config.num_requests,
            is_once=trace is not None
            and (
                isinstance(config.load, RecordedArrivals)
                or (config.num_requests is None and config.duration_s is None)
            ),
            num_left_out=num_left_out,
        ),
    )


def _num_synthetic(config: RunConfig) -> int:
    """How many different prompts a run of given lengths may need, within a bound on their text."""
    assert config.synthetic is not None
    if config.num_requests is not None:
        wanted = config.num_requests * config.repeats + config.num_warmup
    elif config.rate_per_s is not None and config.duration_s is not None:
        highest = max(config.rate_per_s, config.final_rate_per_s or 0.0)
        wanted = math.ceil(1.5 * highest * config.duration_s * config.repeats) + config.num_warmup
    else:
        wanted = _DEFAULT_SYNTHETIC
    return max(1, min(wanted, _MAX_SYNTHETIC_TOKENS // config.synthetic.input_tokens))


def _plan_phases(config: RunConfig, system_prompt: str | None) -> tuple[PhasePlan, ...]:
    """Phase i takes the seed + i, so that phases of one workload differ in their prompts' order."""
    plans, start_s = [], 0.0
    for number, phase in enumerate(config.phases):
        seed = config.seed + number
        if phase.prompts_file is not None:
            found = load_prompt_records(Path(phase.prompts_file))
            prompts, num_left_out = shuffle_prompts(found.prompts, seed), found.num_left_out
        else:
            prompts, num_left_out = load_workload(str(phase.workload)).prompts(seed), 0
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
                num_left_out=num_left_out,
            )
        )
        start_s += phase.duration_s
    return tuple(plans)


def _with_system(prompts: Sequence[Prompt], text: str | None) -> tuple[Prompt, ...]:
    return tuple(prompts if text is None else add_system_prompt(prompts, text))


def _read_system_prompt(config: RunConfig) -> str | None:
    if config.system_prompt_file is None:
        return None
    return read_file(Path(config.system_prompt_file)).strip()
