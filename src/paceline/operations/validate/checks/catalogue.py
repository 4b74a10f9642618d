"""All checks, in the order in which they run: cheap and basic ones first."""

from __future__ import annotations

from typing import Any

from paceline.operations.validate.checks.api import answers, refusals, sampling, streams, usage
from paceline.operations.validate.checks.check import Check
from paceline.operations.validate.checks.operation import (
    cancellation,
    crowd,
    draining,
    health,
    metrics,
    security,
)
from paceline.operations.validate.checks.output import lossless, quality
from paceline.operations.validate.checks.performance import latency

_ROOMS = (
    health, answers, streams, usage, sampling, refusals, security, metrics, cancellation, crowd,
    latency, draining, lossless, quality,
)  # fmt: skip

CHECKS: tuple[Check[Any], ...] = tuple(check for room in _ROOMS for check in room.CHECKS)
