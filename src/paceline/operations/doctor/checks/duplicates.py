"""`duplicate-tokens`: a stream with more tokens than the server counts."""

from __future__ import annotations

from collections.abc import Sequence

from paceline.operations.doctor.checks.check import Check
from paceline.operations.doctor.readings.observation import Observation
from paceline.operations.doctor.values import (
    Basis,
    CannotJudge,
    Cost,
    CostUnit,
    Evidence,
    Finding,
    Lacking,
    Severity,
)


def _judge(observation: Observation) -> Sequence[Finding]:
    probe = observation.probe
    if probe is None:
        raise CannotJudge("no stream was read", Lacking.PROBE)
    if not probe.num_streams_counted:
        raise CannotJudge("the server's streams have no token ids or no usage to compare")
    if not probe.excess_tokens:
        return ()
    request, streamed, counted = probe.excess_tokens[0]
    number, total = len(probe.excess_tokens), probe.num_streams_counted
    return [
        Finding(
            id="duplicate-tokens",
            severity=Severity.CRITICAL,
            summary=f"{number} of {total} streams have more tokens than the server counts.",
            evidence=(
                Evidence("request", request),
                Evidence("tokens in its stream", streamed),
                Evidence("tokens in its usage", counted),
            ),
            cost=Cost(
                Basis.MEASURED,
                "streams of the probe",
                CostUnit.PERCENT_OF_REQUESTS,
                100 * number / total,
                share=number / total,
            ),
            cause="A proxy between the server and its clients sends events twice, or sends drafts.",
            remedy=(
                "Ask the engine's own port in the same way: if its streams are right, the proxy is "
                "at fault"
            ),
            settings=(),
        )
    ]


CHECK = Check(
    "duplicate-tokens",
    "streams with more tokens than the server counts (with --probe)",
    ("duplicate-tokens",),
    _judge,
)
