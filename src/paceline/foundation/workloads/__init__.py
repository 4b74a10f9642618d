"""Workloads: named sets of prompts, and the requests built from them.

For other packages: `load_workload` and `workload_names` (the built-in workloads), `build_specs`
(their requests), `load_prompt_file`, `load_placed_prompts` and `load_prompt_records` (a user's
prompts, in its own form or that of a public data set), `digest_of_file` (of the file), `load_trace`
(recorded requests with their times, numbers in a `TimeUnit`), `conversation_of` and `key_of` (which
prompts belong together), `FieldReader` (checked fields of a file) and the values below. The package
imports no other part of Paceline except the path of the bundled prompts.
"""

from paceline.foundation.workloads.conversations import conversation_of, key_of
from paceline.foundation.workloads.fields import FieldReader, WorkloadError
from paceline.foundation.workloads.filler import FillerText, heldout_text, probe_text
from paceline.foundation.workloads.heldout import HeldoutWorkload, load_heldout
from paceline.foundation.workloads.prompt_files import (
    PromptRecords,
    add_system_prompt,
    digest_of_file,
    load_placed_prompts,
    load_prompt_file,
    load_prompt_records,
)
from paceline.foundation.workloads.prompts import Prompt, Turn, shuffle_prompts
from paceline.foundation.workloads.recorded.entries import Trace, TraceEntry
from paceline.foundation.workloads.recorded.forms import TimeUnit
from paceline.foundation.workloads.recorded.loading import load_trace
from paceline.foundation.workloads.registry import load_workload, load_workloads, workload_names
from paceline.foundation.workloads.requests import (
    NextTurn,
    RequestSpec,
    SamplingSettings,
    build_spec,
    build_specs,
)
from paceline.foundation.workloads.synthetic import SyntheticLengths
from paceline.foundation.workloads.workload import TextKind, Workload

__all__ = [
    "FieldReader",
    "FillerText",
    "HeldoutWorkload",
    "NextTurn",
    "Prompt",
    "PromptRecords",
    "RequestSpec",
    "SamplingSettings",
    "SyntheticLengths",
    "TextKind",
    "TimeUnit",
    "Trace",
    "TraceEntry",
    "Turn",
    "Workload",
    "WorkloadError",
    "add_system_prompt",
    "build_spec",
    "build_specs",
    "conversation_of",
    "digest_of_file",
    "heldout_text",
    "key_of",
    "load_heldout",
    "load_placed_prompts",
    "load_prompt_file",
    "load_prompt_records",
    "load_trace",
    "load_workload",
    "load_workloads",
    "probe_text",
    "shuffle_prompts",
    "workload_names",
]
