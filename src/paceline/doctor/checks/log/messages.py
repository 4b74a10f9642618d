"""`log`: messages with a known cause in the engine's log."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.doctor.checks.check import Check
from paceline.doctor.checks.log.patterns import (
    DRAFT_MODEL,
    FP8_KV,
    FP8_KV_WITH_DRAFT,
    ILLEGAL_ACCESS,
    LOG_PATTERNS,
    LogPattern,
)
from paceline.doctor.readings.observation import Observation
from paceline.doctor.values import CannotJudge, Evidence, Finding, unknown_cost

_MAX_LINE = 200


def _judge(observation: Observation) -> Sequence[Finding]:
    if observation.log_lines is None:
        raise CannotJudge("no log was read: give --log FILE")
    return judge_log(observation.log_lines)


def judge_log(lines: Sequence[str]) -> list[Finding]:
    """One finding per message that occurs, with its first line."""
    has_fp8 = any(FP8_KV.search(line) for line in lines)
    has_draft = any(DRAFT_MODEL.search(line) for line in lines)
    access = FP8_KV_WITH_DRAFT if has_fp8 and has_draft else ILLEGAL_ACCESS
    findings = []
    for pattern in (*LOG_PATTERNS, access):
        numbers = [number for number, line in enumerate(lines) if pattern.pattern.search(line)]
        if numbers:
            findings.append(_finding(pattern, lines[numbers[0]].strip(), len(numbers)))
    return findings


def _finding(pattern: LogPattern, line: str, count: int) -> Finding:
    return Finding(
        id=pattern.id,
        severity=pattern.severity,
        summary=pattern.summary,
        evidence=(Evidence("first message", line[:_MAX_LINE]), Evidence("messages", count)),
        cost=unknown_cost("a log does not show what it costs"),
        cause=pattern.cause,
        remedy=pattern.remedy,
        settings=pattern.settings,
    )


CHECK = Check(
    "log",
    "messages with a known cause in the engine's log (with --log)",
    tuple(one.id for one in (*LOG_PATTERNS, ILLEGAL_ACCESS, FP8_KV_WITH_DRAFT)),
    _judge,
)
