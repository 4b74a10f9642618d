"""Answers that a drafter predicts well."""

from paceline.workloads.heldout import HeldoutWorkload
from paceline.workloads.workload import TextKind

WORKLOAD = HeldoutWorkload(
    name="predictable",
    description="rename and json in turn",
    tasks=("rename", "json"),
    text_kind=TextKind.PREDICTABLE,
)
