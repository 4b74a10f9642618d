"""`restarts`: engines that restarted, by their counters.

A gateway counts the restarts of its own engines, and which of them an operator or a draft swap
asked for. Of another server only the counters of the engine show a restart, and not why.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.foundation.servers.metrics_page import MetricsPage
from paceline.operations.doctor.checks.check import Check
from paceline.operations.doctor.readings.engines import EngineReading
from paceline.operations.doctor.readings.observation import Observation
from paceline.operations.doctor.values import Evidence, Finding, Severity, unknown_cost

_ENDED = "the engine's process ended or hung: out of memory, a fault of the GPU, or a defect."
_ASKED = "An operator or a draft swap asked for it"


@dataclass(frozen=True, slots=True)
class _Restarts:
    num_all: float = 0.0
    num_planned: float = 0.0

    def since(self, before: _Restarts) -> _Restarts:
        return _Restarts(
            self.num_all - before.num_all, max(0.0, self.num_planned - before.num_planned)
        )

    @property
    def num_unplanned(self) -> float:
        return self.num_all - self.num_planned


def _judge(observation: Observation) -> Sequence[Finding]:
    findings = []
    for name, readings in observation.engines.items():
        before = _counted(observation.first.page, name)
        after = _counted(observation.last.page, name)
        if before is None or after is None or after.num_all < before.num_all:
            after = after or _Restarts()
            in_window = _Restarts(float(_num_falls(readings)))
        else:
            in_window = after.since(before)
        if in_window.num_all or after.num_all:
            findings.append(_finding(name, in_window, after))
    return findings


def _counted(page: MetricsPage, name: str) -> _Restarts | None:
    """The restarts so far; None if the server does not count them.

    A gateway of an earlier version does not tell planned ones apart.
    """
    num_all = page.total("paceline_replica_restarts_total", replica=name)
    if num_all is None:
        return None
    num_unplanned = page.total("paceline_replica_unplanned_restarts_total", replica=name)
    return _Restarts(num_all, 0.0 if num_unplanned is None else num_all - num_unplanned)


def _finding(name: str, in_window: _Restarts, total: _Restarts) -> Finding:
    if in_window.num_unplanned:
        summary = f"{name} restarted while it was observed."
    elif in_window.num_planned:
        summary = f"{name} was restarted while it was observed, as was asked for."
    else:
        planned = f", {total.num_planned:.0f} of them as asked for" if total.num_planned else ""
        summary = f"{name} has restarted {total.num_all:.0f} times since the gateway started"
        summary += f"{planned}."
    is_planned = not in_window.num_unplanned and not total.num_unplanned
    return Finding(
        id="engine-restarted",
        severity=Severity.CRITICAL if in_window.num_unplanned else Severity.INFO,
        summary=summary,
        evidence=(
            Evidence("restarts while observed", in_window.num_all),
            Evidence("of them planned", in_window.num_planned),
            Evidence("restarts since the start", total.num_all),
            Evidence("of these planned", total.num_planned),
        ),
        cost=unknown_cost("it depends on how long a start takes and who waits for it"),
        cause=f"{_ASKED}." if is_planned else f"{_ASKED}, or {_ENDED}",
        remedy=(
            "None: it was meant to restart"
            if is_planned
            else "Read the log of its last minutes: paceline doctor --log FILE"
        ),
        settings=(),
        subject=name,
    )


def _num_falls(readings: Sequence[EngineReading]) -> int:
    """How often the counter of output tokens fell."""
    tokens = [
        one.generation_tokens_total for one in readings if one.generation_tokens_total is not None
    ]
    return sum(after < before for before, after in itertools.pairwise(tokens))


CHECK = Check("restarts", "engines that restarted", ("engine-restarted",), _judge)
