"""Chats that ask for JSON."""

from paceline.foundation.workloads.heldout import HeldoutWorkload

WORKLOAD = HeldoutWorkload(
    name="json",
    description="chat: turn a signature into JSON",
    tasks=("json",),
)
