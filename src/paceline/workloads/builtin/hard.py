"""Sampled source code, which a drafter predicts badly."""

from paceline.workloads.heldout import HeldoutWorkload
from paceline.workloads.workload import TextKind

WORKLOAD = HeldoutWorkload(
    name="hard",
    description="plain completion of source code at temperature 1",
    tasks=("code",),
    temperature=1.0,
    text_kind=TextKind.HARD,
)
