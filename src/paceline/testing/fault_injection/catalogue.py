"""All faults."""

from __future__ import annotations

from paceline.testing.fault_injection import (
    answers,
    operation,
    performance,
    refusals,
    sampling,
    streams,
)

FAULTS = tuple(
    fault
    for room in (answers, streams, sampling, refusals, operation, performance)
    for fault in room.FAULTS
)
