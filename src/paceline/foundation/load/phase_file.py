"""Read a file of phases: stretches of traffic with a load and a workload each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from paceline.foundation.command_line.near_names import did_you_mean
from paceline.foundation.files.strict_files import StrictFileError, load_yaml
from paceline.foundation.load.loads import ClosedLoop, OpenLoop
from paceline.foundation.workloads import FieldReader, WorkloadError, load_workload, workload_names
from paceline.foundation.workloads.record_files import read_file

_PHASE_FIELDS = (
    "name",
    "duration_s",
    "workload",
    "prompts",
    "temperature",
    "max_tokens",
    "load",
)
_LOAD_FIELDS = ("concurrency", "rate_per_s", "final_rate_per_s", "burstiness", "max_in_flight")


@dataclass(frozen=True, slots=True)
class PhaseConfig:
    """One phase."""

    name: str
    duration_s: float
    load: ClosedLoop | OpenLoop
    workload: str | None = None
    """A built-in workload; None with `prompts_file`."""
    prompts_file: str | None = None
    temperature: float | None = None
    """None: the workload's own temperature; 0 with `prompts_file`."""
    max_tokens: int | None = None
    """None: the prompts' own limits."""

    def __post_init__(self) -> None:
        if not (self.duration_s > 0 and math.isfinite(self.duration_s)):
            raise ValueError(f"duration_s is {self.duration_s}; it must be a number above 0")
        if (self.workload is None) == (self.prompts_file is None):
            raise ValueError("give either workload or prompts")

    @property
    def effective_temperature(self) -> float:
        """The temperature of the phase's requests."""
        if self.temperature is not None:
            return self.temperature
        return 0.0 if self.workload is None else load_workload(self.workload).temperature

    @property
    def workload_label(self) -> str:
        """Where the requests come from, for people."""
        return Path(self.prompts_file).name if self.prompts_file else str(self.workload)


def load_phases(path: Path) -> tuple[PhaseConfig, ...]:
    """The phases of a YAML or JSON file; WorkloadError names the phase and the field that is wrong.

    Files of prompts are relative to the file of phases.
    """
    try:
        document = load_yaml(read_file(path))
    except StrictFileError as error:
        raise WorkloadError(f"{path} is neither YAML nor JSON: {error}") from error
    fields = FieldReader(document, str(path))
    fields.refuse_unknown(("phases",))
    items = fields.items("phases")
    if items is None:
        raise fields.error("phases is missing; it must be a non-empty list of phases")
    phases = tuple(
        _read_phase(FieldReader(item, f"{path}, phase {number}"), path.parent)
        for number, item in enumerate(items, start=1)
    )
    names = [phase.name for phase in phases]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise WorkloadError(f"{path}: two phases have the name {repeated!r}; each needs its own")
    return phases


def _read_phase(fields: FieldReader, folder: Path) -> PhaseConfig:
    fields.refuse_unknown(_PHASE_FIELDS)
    name, duration_s = fields.word("name"), fields.number("duration_s", above=0)
    if name is None or duration_s is None:
        missing = "name" if name is None else "duration_s"
        raise fields.error(f"{missing} is missing; a phase needs name, duration_s and load")
    source = fields.one_of(("workload", "prompts"))
    if source is None:
        raise fields.error("the requests are missing; give workload (a name) or prompts (a file)")
    workload = fields.word("workload")
    if workload is not None and workload not in workload_names():
        raise fields.error(
            f"workload is {workload!r}; it must be one of {', '.join(workload_names())}"
            f"{did_you_mean(workload, workload_names())}"
        )
    prompts = fields.word("prompts")
    return PhaseConfig(
        name=name,
        duration_s=duration_s,
        load=_read_load(fields),
        workload=workload,
        prompts_file=None if prompts is None else str(folder / prompts),
        temperature=fields.number("temperature", lowest=0),
        max_tokens=fields.count("max_tokens"),
    )


def _read_load(phase: FieldReader) -> ClosedLoop | OpenLoop:
    if "load" not in phase:
        raise phase.error("load is missing; give load: {concurrency: N} or load: {rate_per_s: R}")
    fields = FieldReader(phase.raw("load"), f"{phase.where}, load")
    fields.refuse_unknown(_LOAD_FIELDS)
    kind = fields.one_of(("concurrency", "rate_per_s"))
    if kind is None:
        raise fields.error("give concurrency (closed loop) or rate_per_s (open loop)")
    if kind == "concurrency":
        fields.refuse_unknown(("concurrency",))
        return ClosedLoop(fields.count("concurrency") or 1)
    return OpenLoop(
        rate_per_s=fields.number("rate_per_s", above=0) or 1.0,
        burstiness=fields.number("burstiness", above=0) or 1.0,
        final_rate_per_s=fields.number("final_rate_per_s", above=0),
        max_in_flight=fields.count("max_in_flight"),
    )
