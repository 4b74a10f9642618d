"""Chats that ask to rename an identifier."""

from paceline.foundation.workloads.heldout import HeldoutWorkload

WORKLOAD = HeldoutWorkload(
    name="rename",
    description="chat: rename an identifier throughout a function (a copying task)",
    tasks=("rename",),
)
