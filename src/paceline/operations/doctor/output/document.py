"""The JSON document that `--json` writes; docs/how-to/doctor.md describes it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from paceline.operations.doctor.diagnosing import Visit, money_of
from paceline.operations.doctor.values import Diagnosis, Finding, exit_code_of

SCHEMA_VERSION = 1
INTERRUPTED = 130
NOT_MADE = 4
DISTURBED = 5
_CRITICAL = 3


def render_document(visit: Visit, diagnosis: Diagnosis, version: str) -> dict[str, Any]:
    """Keys and meanings stay within a schema version; new keys may be added."""
    config = visit.config
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "paceline doctor",
        "paceline": version,
        "server": {"url": str(config.url), "kind": visit.kind, "vllm": visit.version},
        "observed_s": round(visit.duration_s, 3),
        "num_readings": len(visit.watch.readings),
        "is_interrupted": visit.is_interrupted,
        "exit_code": visit_exit_code(visit, diagnosis),
        "price": None if config.price is None else asdict(config.price),
        "findings": [_finding(visit, finding) for finding in diagnosis.findings],
        "num_requests": diagnosis.num_requests,
        "passed": list(diagnosis.passed),
        "not_judged": [asdict(one) for one in diagnosis.not_judged],
        "probe": None if visit.probe is None else asdict(visit.probe),
        "fix": None if visit.fix is None else asdict(visit.fix),
        "restore_failure": visit.restore_failure,
        "notes": visit.notes,
    }


def _finding(visit: Visit, finding: Finding) -> dict[str, Any]:
    """With the money among the other figures of its cost."""
    document, money = asdict(finding), money_of(visit, finding)
    document["cost"] |= (
        dict.fromkeys(("usd_per_hour", "usd_per_million_output_tokens"))
        if money is None
        else asdict(money)
    )
    return document


def visit_exit_code(visit: Visit, diagnosis: Diagnosis) -> int:
    """The severity of what is left after a fix; 130 after an interruption.

    3 if governors keep a setting of the doctor, also after an interruption. 5 if another changed
    them while they were measured and nothing is critical. 4 if no check has a verdict.
    """
    if visit.restore_failure is not None:
        return _CRITICAL
    if visit.is_interrupted:
        return INTERRUPTED
    if not diagnosis.has_verdict:
        return NOT_MADE
    result = visit.fix
    if result is not None and result.fix is not None and result.is_kept:
        return exit_code_of(diagnosis, result.fix.findings)
    code = exit_code_of(diagnosis)
    return DISTURBED if visit.is_disturbed and code != _CRITICAL else code
