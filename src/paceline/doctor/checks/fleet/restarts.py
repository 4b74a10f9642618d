"""`restarts`: engines that restarted, by their counters."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from paceline.doctor.checks.check import Check
from paceline.doctor.readings.engines import EngineReading
from paceline.doctor.readings.observation import Observation
from paceline.doctor.values import Evidence, Finding, Severity, unknown_cost


def _judge(observation: Observation) -> Sequence[Finding]:
    findings = []
    for name, readings in observation.engines.items():
        before = (
            observation.first.page.total("paceline_replica_restarts_total", replica=name) or 0.0
        )
        after = observation.last.page.total("paceline_replica_restarts_total", replica=name) or 0.0
        in_window = max(after - before, float(_num_falls(readings)))
        if not in_window and not after:
            continue
        findings.append(
            Finding(
                id="engine-restarted",
                severity=Severity.CRITICAL if in_window else Severity.INFO,
                summary=(
                    f"{name} restarted while it was observed."
                    if in_window
                    else f"{name} has restarted {after:.0f} times since the gateway started."
                ),
                evidence=(
                    Evidence("restarts while observed", in_window),
                    Evidence("restarts since the start", after),
                ),
                cost=unknown_cost("it depends on how long a start takes and who waits for it"),
                cause=(
                    "A restart was asked for (a draft swap, an operator), or the engine's process "
                    "ended: out of memory, a fault of the GPU, or a defect."
                ),
                remedy="Read the log of its last minutes: paceline doctor --log FILE",
                settings=(),
                subject=name,
            )
        )
    return findings


def _num_falls(readings: Sequence[EngineReading]) -> int:
    """How often the counter of output tokens fell."""
    tokens = [
        one.generation_tokens_total for one in readings if one.generation_tokens_total is not None
    ]
    return sum(after < before for before, after in itertools.pairwise(tokens))


CHECK = Check("restarts", "engines that restarted", ("engine-restarted",), _judge)
