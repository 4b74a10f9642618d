"""`paceline doctor` has no finding above `info` on a healthy `paceline serve` whose load changes.

`make test-slow` observes it for six minutes, or for `SILENT_MINUTES`. For an hour, with a result:
`benchmarks/doctor_silence.py`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from benchmarks.doctor_silence import ADMIN, ENGINE, Plan, observe_server, summarize

_MINUTES = float(os.environ.get("SILENT_MINUTES", "6"))
_PHASES = Plan(shortest_phase_s=20.0, longest_phase_s=45.0)
"""Shorter than those of the benchmark, so that six minutes have every kind of load."""

pytestmark = [
    pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(60 * _MINUTES + 1200),
]  # fmt: skip


def test_a_healthy_server_has_no_warning_under_a_changing_load() -> None:
    document: dict[str, Any] = {"diagnoses": [], "load": []}
    observe_server(document, _PHASES, _MINUTES, lambda: None)
    summary = summarize(document)
    loud = [one for one in document["diagnoses"] if one.get("document", {}) != {}]
    assert summary["is_silent"], json.dumps([summary, loud], indent=1)
    assert summary["is_load_healthy"], [document["load"], summary]
    for target in (ADMIN, ENGINE):
        assert {"restarts", "failing-requests", "kv-cache-full", "queue"} <= set(
            summary["passed_by_target"][target]
        ), summary
