"""Workloads: named sets of prompts, and the requests built from them.

For other packages: `load_workload` and `workload_names` (the built-in workloads), `build_specs`
(their requests), `load_prompt_file` (a user's prompts) and the values below. The package imports no
other part of Paceline except the path of the bundled prompts.
"""

from paceline.workloads.heldout import HeldoutWorkload, load_heldout
from paceline.workloads.prompts import (
    Prompt,
    WorkloadError,
    load_prompt_file,
    shuffle_prompts,
)
from paceline.workloads.registry import load_workload, load_workloads, workload_names
from paceline.workloads.requests import RequestSpec, SamplingSettings, build_spec, build_specs
from paceline.workloads.workload import TextKind, Workload

__all__ = [
    "HeldoutWorkload",
    "Prompt",
    "RequestSpec",
    "SamplingSettings",
    "TextKind",
    "Workload",
    "WorkloadError",
    "build_spec",
    "build_specs",
    "load_heldout",
    "load_prompt_file",
    "load_workload",
    "load_workloads",
    "shuffle_prompts",
    "workload_names",
]
