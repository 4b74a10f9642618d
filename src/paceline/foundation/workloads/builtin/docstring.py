"""Chats that ask for a docstring."""

from paceline.foundation.workloads.heldout import HeldoutWorkload

WORKLOAD = HeldoutWorkload(
    name="docstring",
    description="chat: write the docstring of a function",
    tasks=("docstring",),
)
