"""Workloads: named sets of prompts, and the requests built from them.

For other packages: `load_workload` and `workload_names` (the built-in workloads), `build_specs`
(their requests), `load_prompt_file` and `load_placed_prompts` (a user's prompts), `digest_of_file`
(of the file), `load_trace` (recorded requests with their times), `conversation_of` and `key_of`
(which prompts belong together), `FieldReader` (checked fields of a file) and the values below. The
package imports no other part of Paceline except the path of the bundled prompts.
"""

from paceline.workloads.conversations import conversation_of, key_of
from paceline.workloads.fields import FieldReader, WorkloadError
from paceline.workloads.filler import FillerText, heldout_text, probe_text
from paceline.workloads.heldout import HeldoutWorkload, load_heldout
from paceline.workloads.prompt_files import (
    add_system_prompt,
    digest_of_file,
    load_placed_prompts,
    load_prompt_file,
)
from paceline.workloads.prompts import Prompt, Turn, shuffle_prompts
from paceline.workloads.registry import load_workload, load_workloads, workload_names
from paceline.workloads.requests import (
    NextTurn,
    RequestSpec,
    SamplingSettings,
    build_spec,
    build_specs,
)
from paceline.workloads.traces import TraceEntry, load_trace, needs_filler
from paceline.workloads.workload import TextKind, Workload

__all__ = [
    "FieldReader",
    "FillerText",
    "HeldoutWorkload",
    "NextTurn",
    "Prompt",
    "RequestSpec",
    "SamplingSettings",
    "TextKind",
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
    "load_trace",
    "load_workload",
    "load_workloads",
    "needs_filler",
    "probe_text",
    "shuffle_prompts",
    "workload_names",
]
