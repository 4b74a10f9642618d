"""Lines of recordings for tests."""

from __future__ import annotations

from typing import Any

from paceline.foundation.recording.records import (
    End,
    Header,
    RequestRecord,
    StepBlock,
    StepCell,
    encode,
)

HEADER = Header(
    schema_version=1,
    paceline_version="0",
    policy="goodput",
    method="draft_model",
    max_draft_length=8,
    max_num_seqs=64,
    token_budget=2048,
)
CELL = StepCell(4, 2, True, 3, 8.0, 0.0, 950.0, 0.012, 0.000008)
BLOCK = StepBlock(from_s=0.0, to_s=5.0, output_tokens=30, cells=(CELL,))


def request(**changes: Any) -> RequestRecord:
    """A request that was accepted 2 of 3 times at the first position, and 1 of 2 at the second."""
    fields: dict[str, Any] = {
        "category": "code",
        "arrived_s": 1.0,
        "prompt_tokens": 100,
        "output_tokens": 10,
        "first_token_s": 0.1,
        "ended_s": 3.0,
        "asked": 3,
        "tried": (3, 2),
        "accepted": (2, 1),
    }
    return RequestRecord(**(fields | changes))


def content(*lines: Any) -> bytes:
    """The file with these lines after the header."""
    return b"".join(map(encode, (HEADER, *lines)))


END = End(at_s=6.0, reason="stopped")
