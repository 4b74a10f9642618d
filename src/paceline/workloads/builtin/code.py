"""Plain completion of source code."""

from paceline.workloads.heldout import HeldoutWorkload
from paceline.workloads.workload import TextKind

WORKLOAD = HeldoutWorkload(
    name="code",
    description="plain completion of source code, through /v1/completions",
    tasks=("code",),
    text_kind=TextKind.MIDDLING,
)
