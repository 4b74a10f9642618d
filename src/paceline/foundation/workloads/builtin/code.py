"""Plain completion of source code."""

from paceline.foundation.workloads.heldout import HeldoutWorkload
from paceline.foundation.workloads.workload import TextKind

WORKLOAD = HeldoutWorkload(
    name="code",
    description="plain completion of source code, through /v1/completions",
    tasks=("code",),
    text_kind=TextKind.MIDDLING,
)
