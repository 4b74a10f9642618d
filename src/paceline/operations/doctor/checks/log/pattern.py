"""`LogPattern`: one message in an engine's log whose cause and remedy are known."""

from __future__ import annotations

import re
from dataclasses import dataclass

from paceline.operations.doctor.values import Severity


@dataclass(frozen=True, slots=True)
class LogPattern:
    """One message."""

    id: str
    severity: Severity
    pattern: re.Pattern[str]
    summary: str
    cause: str
    remedy: str
    settings: tuple[str, ...]
    unless: tuple[str, ...] = ()
    """Findings that name the cause of this message; it is left out beside them."""


def log_pattern(
    id: str,
    pattern: str,
    summary: str,
    cause: str,
    remedy: str,
    *settings: str,
    severity: Severity = Severity.CRITICAL,
    unless: tuple[str, ...] = (),
) -> LogPattern:
    """The pattern, which takes letters of either case."""
    compiled = re.compile(pattern, re.IGNORECASE)
    return LogPattern(id, severity, compiled, summary, cause, remedy, settings, unless)
