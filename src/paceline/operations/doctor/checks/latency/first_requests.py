"""`first-requests`: the first requests of a server get their first token late."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from paceline.foundation.servers.metrics_histogram import Histogram
from paceline.operations.doctor.checks.check import Check
from paceline.operations.doctor.readings.observation import FIRST_TOKEN_HISTOGRAMS, Observation
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

_MAX_BEFORE = 3
"""Requests that the server may have answered before the observation."""
_MIN_LATER = 5
_RATIO = 3.0
_MIN_EXCESS_S = 0.1


def _judge(observation: Observation) -> Sequence[Finding]:
    name = FIRST_TOKEN_HISTOGRAMS[observation.kind]
    series = [reading.page.histogram(name) for reading in observation.readings]
    shown = [one for one in series if one is not None]
    if len(shown) < 2:
        raise CannotJudge(f"the server does not show {name}")
    if shown[0].count > _MAX_BEFORE:
        raise CannotJudge(
            f"the server answered {shown[0].count:.0f} requests before: observe it from its start"
        )
    first, later = _split(shown)
    if first is None or later is None or later.count < _MIN_LATER:
        raise CannotJudge(
            f"fewer than {_MIN_LATER} requests got a token after the first ones", Lacking.REQUESTS
        )
    first_s, later_s = first.mean or 0.0, later.mean or 0.0
    if first_s < _RATIO * later_s or first_s - later_s < _MIN_EXCESS_S:
        return ()
    return [
        Finding(
            id="first-requests-slow",
            severity=Severity.INFO,
            summary=(
                f"The first {first.count:.0f} requests got their first token after "
                f"{1e3 * first_s:.0f} ms, later ones after {1e3 * later_s:.0f} ms."
            ),
            evidence=(
                Evidence("first requests", first.count),
                Evidence("their mean time to first token", round(1e3 * first_s), "ms"),
                Evidence("later requests", later.count),
                Evidence("their mean time to first token", round(1e3 * later_s), "ms"),
            ),
            cost=Cost(
                Basis.MEASURED,
                "only of the first requests after a start",
                CostUnit.MS_TO_FIRST_TOKEN,
                1e3 * (first_s - later_s),
                share=first.count / (first.count + later.count),
            ),
            cause="Kernels are compiled and caches are filled by the first use.",
            remedy=(
                "Send a request of each kind before the server takes traffic (fleet.warm_up does "
                "it for replicas), let a start-up probe wait for it, and where it idles for hours, "
                "send one now and then (a heartbeat)"
            ),
            settings=("fleet.warm_up", "startupProbe"),
        )
    ]


def _split(series: Sequence[Histogram]) -> tuple[Histogram | None, Histogram | None]:
    """The requests up to the first reading that has any, and those after it."""
    for before, after in itertools.pairwise(series):
        if before.count > 0:
            return before, series[-1].minus(before)
        if after.count > 0:
            return after, series[-1].minus(after)
    return None, None


CHECK = Check(
    "first-requests",
    "first requests that get their first token late",
    ("first-requests-slow",),
    _judge,
)
