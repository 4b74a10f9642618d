"""Chats that ask for a whole function."""

from paceline.foundation.workloads.heldout import HeldoutWorkload

WORKLOAD = HeldoutWorkload(
    name="complete",
    description="chat: complete a function from its signature and docstring",
    tasks=("complete",),
)
