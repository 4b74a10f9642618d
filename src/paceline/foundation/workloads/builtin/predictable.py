"""Answers that a drafter predicts well."""

from paceline.foundation.workloads.heldout import HeldoutWorkload
from paceline.foundation.workloads.workload import TextKind

WORKLOAD = HeldoutWorkload(
    name="predictable",
    description="rename and json in turn",
    tasks=("rename", "json"),
    text_kind=TextKind.PREDICTABLE,
)
