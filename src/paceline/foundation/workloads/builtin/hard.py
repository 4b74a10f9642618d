"""Sampled source code, which a drafter predicts badly."""

from paceline.foundation.workloads.heldout import HeldoutWorkload
from paceline.foundation.workloads.workload import TextKind

WORKLOAD = HeldoutWorkload(
    name="hard",
    description="plain completion of source code at temperature 1",
    tasks=("code",),
    temperature=1.0,
    text_kind=TextKind.HARD,
)
