"""`server-lost`: the server could no longer be read when the observation ended."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.operations.doctor.checks.check import Check
from paceline.operations.doctor.readings.observation import Observation
from paceline.operations.doctor.values import Evidence, Finding, Severity, unknown_cost


def _judge(observation: Observation) -> Sequence[Finding]:
    if observation.lost is None:
        return ()
    return [
        Finding(
            id="server-lost",
            severity=Severity.CRITICAL,
            summary="The server stopped answering while it was observed.",
            evidence=(
                Evidence("last reading failed", observation.lost),
                Evidence("read before for", round(observation.duration_s, 1), "s"),
            ),
            cost=unknown_cost("nothing was read after it: it may take requests, or none"),
            cause="Its process ended or hangs, or the connection to it is cut.",
            remedy="Read the log of its last minutes: paceline doctor --log FILE",
            settings=(),
        )
    ]


CHECK = Check("server-lost", "a server that stops answering", ("server-lost",), _judge)
