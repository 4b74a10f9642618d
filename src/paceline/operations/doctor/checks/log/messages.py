"""`log`: messages with a known cause in the engine's log."""

from __future__ import annotations

import re
from collections.abc import Sequence

from paceline.operations.doctor.checks.check import Check
from paceline.operations.doctor.checks.log.pattern import LogPattern
from paceline.operations.doctor.checks.log.patterns import (
    DID_NOT_START,
    DRAFT_MODEL,
    ENGINE_DIED,
    FP8_KV,
    FP8_KV_WITH_DRAFT,
    ILLEGAL_ACCESS,
    LOG_PATTERNS,
)
from paceline.operations.doctor.readings.engine_log import is_remark, root_exception
from paceline.operations.doctor.readings.observation import Observation
from paceline.operations.doctor.values import CannotJudge, Evidence, Finding, unknown_cost

_MAX_LINE = 200
_MAX_SEARCHED = 4000
"""Of a line; the known messages stand at its beginning. Chosen empirically."""
_FRAME = re.compile(r"File \".*\", line \d+, in ")
"""Of a traceback; most lines of a log of failures, and never the message."""


def _judge(observation: Observation) -> Sequence[Finding]:
    if observation.log_lines is None:
        raise CannotJudge("no log was read: give --log FILE")
    if not any(line.strip() for line in observation.log_lines):
        raise CannotJudge("the log is empty: give the file that the engine's output goes to")
    return judge_log(observation.log_lines)


def judge_log(lines: Sequence[str]) -> list[Finding]:
    """One finding per message that occurs, with its first line.

    Lines of the levels INFO and DEBUG report no failure: they only show the configuration.
    """
    has_fp8 = any(FP8_KV.search(line) for line in lines)
    has_draft = any(DRAFT_MODEL.search(line) for line in lines)
    access = FP8_KV_WITH_DRAFT if has_fp8 and has_draft else ILLEGAL_ACCESS
    reports = [line[:_MAX_SEARCHED] for line in lines if line and not is_remark(line)]
    reports = [line for line in reports if _FRAME.search(line) is None]
    found = {
        pattern: matching
        for pattern in (*LOG_PATTERNS, access)
        if (matching := [line for line in reports if pattern.pattern.search(line)])
    }
    ids = {pattern.id for pattern in found}
    points_to_exception = (DID_NOT_START, ENGINE_DIED)
    return [
        _finding(
            pattern, matching, root_exception(lines) if pattern.id in points_to_exception else None
        )
        for pattern, matching in found.items()
        if ids.isdisjoint(pattern.unless)
    ]


def describe_unknown(lines: Sequence[str]) -> str:
    """What a log without a known message shows."""
    if not any(line.strip() for line in lines):
        return "it is empty"
    exception = root_exception(lines)
    text = "none of its messages has a known cause"
    if exception is None:
        return text
    return f"{text}; its first exception since the last start is {exception[:_MAX_LINE]}"


def _finding(pattern: LogPattern, matching: Sequence[str], exception: str | None) -> Finding:
    evidence = [
        Evidence("first message", matching[0].strip()[:_MAX_LINE]),
        Evidence("messages", len(matching)),
    ]
    if exception is not None:
        evidence.insert(0, Evidence("first exception", exception[:_MAX_LINE]))
    return Finding(
        id=pattern.id,
        severity=pattern.severity,
        summary=pattern.summary,
        evidence=tuple(evidence),
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
