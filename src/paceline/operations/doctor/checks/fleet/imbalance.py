"""`imbalance`: one replica or rank is busier than the others of its model."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from paceline.operations.doctor.checks.check import Check
from paceline.operations.doctor.readings.engines import EngineReading
from paceline.operations.doctor.readings.observation import Observation
from paceline.operations.doctor.values import (
    Basis,
    CannotJudge,
    Cost,
    CostUnit,
    Evidence,
    Finding,
    Severity,
    unknown_cost,
)

_RATIO = 1.5
"""Of the busiest engine's requests to the mean. The gateway's own bound is 1.25 times the mean."""
_MIN_EXCESS = 2.0
"""Requests above the mean: with few requests, one more is no imbalance."""


def _judge(observation: Observation) -> Sequence[Finding]:
    loads = {
        name: load
        for name, readings in observation.engines.items()
        if (load := _mean_load(readings)) is not None
    }
    models = {str(one.get("name")): one.get("model") for one in observation.last.replicas}
    by_model: dict[object, dict[str, float]] = {}
    for name, load in loads.items():
        by_model.setdefault(models.get(name), {})[name] = load
    groups = [group for group in by_model.values() if len(group) > 1]
    if not groups:
        raise CannotJudge("the server shows the load of fewer than two engines of one model")
    return [finding for group in groups for finding in _judge_group(observation, group)]


def _judge_group(observation: Observation, loads: Mapping[str, float]) -> Sequence[Finding]:
    """The busiest of the engines of one model."""
    mean = sum(loads.values()) / len(loads)
    name, most = max(loads.items(), key=lambda item: item[1])
    if most < _RATIO * mean or most - mean < _MIN_EXCESS:
        return ()
    least = min(loads.values())
    return [
        Finding(
            id="load-imbalance",
            severity=Severity.WARNING,
            summary=(
                f"{name} has {most:.1f} requests on average, the {len(loads)} engines {mean:.1f}."
            ),
            evidence=(
                *(Evidence(f"requests on {one}", round(load, 1)) for one, load in loads.items()),
                Evidence("busiest over mean", round(most / mean, 2)),
            ),
            cost=_cost(observation, name, loads),
            cause=(
                "Requests are not routed by load, or long contexts occupy one replica"
                f" while another has {least:.1f} requests."
            ),
            remedy=(
                "Route by load (Paceline's gateway does, with prefix affinity bounded by load), "
                "and give long contexts a pool of their own"
            ),
            settings=("replicas[].model", "replicas[].max_in_flight"),
            subject=name,
        )
    ]


def _mean_load(readings: Sequence[EngineReading]) -> float | None:
    loads = [
        one.num_running + (one.num_waiting or 0) for one in readings if one.num_running is not None
    ]
    return sum(loads) / len(loads) if loads else None


def _cost(observation: Observation, busiest: str, group: Collection[str]) -> Cost:
    """The time per token on the busiest replica above the mean of the others."""
    times = {
        str(replica.get("name")): replica.get("seconds_per_token")
        for replica in observation.last.replicas
        if str(replica.get("name")) in group
    }
    own = times.pop(busiest, None)
    others = [value for value in times.values() if isinstance(value, int | float)]
    if not isinstance(own, int | float) or not others:
        return unknown_cost("the server does not show the time per token of each engine")
    excess_s = own - sum(others) / len(others)
    if excess_s <= 0:
        return unknown_cost("the busiest engine is as fast per token as the others")
    return Cost(
        Basis.MEASURED,
        "time per token of the busiest replica, less the mean of the others",
        CostUnit.MS_PER_TOKEN,
        1e3 * excess_s,
        share=excess_s / own,
    )


CHECK = Check("imbalance", "an engine busier than the rest", ("load-imbalance",), _judge)
