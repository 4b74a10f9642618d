"""Every task in turn."""

from paceline.foundation.workloads.heldout import TASKS, HeldoutWorkload

WORKLOAD = HeldoutWorkload(
    name="mixed",
    description="all five tasks in turn: complete, docstring, rename, json, code",
    tasks=TASKS,
)
