"""What the hardware options of a replay mean: a scaling of the cost, and a price."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from paceline.foundation.capacity.hardware import Hardware
from paceline.foundation.capacity.step_time import StepTime
from paceline.foundation.planning.decisions.candidate import Demand, step_times
from paceline.foundation.planning.decisions.fleet import Bill
from paceline.foundation.planning.decisions.limits import LimitSettings, engine_limits
from paceline.foundation.planning.sources.catalogue import Catalogue
from paceline.foundation.planning.sources.drafters import choose_drafter
from paceline.foundation.planning.sources.model_source import find_model
from paceline.foundation.planning.sources.this_machine import read_machine
from paceline.foundation.planning.values import EngineLimits, HardwareEntry, Load, PlanError, Slo
from paceline.testing.policy_simulator.machines.cost import CostFunction
from paceline.workbench.plan.replay.hardware import DEVIATION, ScaledCost

_LOAD = Load(1, 1)
"""Only the limits of memory depend on it, which a step time does not use."""


@dataclass(frozen=True, slots=True)
class HardwareChoice:
    """The options of the command line."""

    gpu: str | None
    num_gpus: int
    recorded_on: str | None
    recorded_num_gpus: int
    model: str | None
    draft: str
    usd_per_hour: float | None


@dataclass(frozen=True, slots=True)
class Scaling:
    """From the recorded hardware to the wanted one."""

    scale_cost: Callable[[CostFunction], CostFunction]
    deviation: float
    usd_per_hour: float | None
    """Of one replica; None where no price is known."""
    description: str | None
    """None for the recorded hardware."""


def choose_scaling(choice: HardwareChoice, catalogue: Catalogue) -> Scaling:
    """Return the scaling that the options ask for. Raises `PlanError` where some are missing."""
    price = choice.usd_per_hour
    if choice.gpu is None:
        if choice.recorded_on is None:
            whole = None if price is None else price * choice.recorded_num_gpus
            return Scaling(lambda cost: cost, 0.0, whole, None)
        entry = catalogue.find(choice.recorded_on, read_machine(), price)
        size = choice.recorded_num_gpus
        described = f"{size} x {choice.recorded_on}, as recorded"
        return Scaling(lambda cost: cost, 0.0, _replica_price(entry, size), described)
    if choice.recorded_on is None or choice.model is None:
        raise PlanError(
            "--gpu needs --recorded-on, the hardware of the recording, and --model, the target: "
            "the measured times are scaled by the ratio of the two rooflines"
        )
    old = catalogue.find(choice.recorded_on, read_machine(), None)
    new = catalogue.find(choice.gpu, read_machine(), price)
    recorded = _times(choice, catalogue, old, choice.recorded_num_gpus)
    target = _times(choice, catalogue, new, choice.num_gpus)
    return Scaling(
        lambda cost: ScaledCost(cost, recorded, target),
        DEVIATION,
        _replica_price(new, choice.num_gpus),
        f"{choice.num_gpus} x {choice.gpu}, from {choice.recorded_num_gpus} x {choice.recorded_on}",
    )


def _times(
    choice: HardwareChoice, catalogue: Catalogue, entry: HardwareEntry, size: int
) -> StepTime:
    assert choice.model is not None
    dtype = None
    model = find_model(choice.model, catalogue)
    if model.shape.dtype not in entry.hardware.flops_per_s:
        dtype = next(iter(entry.hardware.flops_per_s))
        model = find_model(choice.model, catalogue, dtype=dtype)
    drafter = choose_drafter(
        choice.draft, model.name, catalogue, dtype=dtype or model.shape.dtype, acceptance=None
    )

    def limits_for(hardware: Hardware) -> EngineLimits:
        return engine_limits(LimitSettings(), hardware, model, _LOAD)

    demand = Demand(model, drafter, _LOAD, Slo(), Bill(None, 0.0), limits_for)
    return step_times(demand, entry, size)


def _replica_price(entry: HardwareEntry, num_gpus: int) -> float | None:
    """The share of the cheapest machine that holds the replica, per hour."""
    prices = [
        offer.usd_per_hour / (offer.num_gpus // num_gpus)
        for offer in entry.offers
        if offer.num_gpus >= num_gpus
    ]
    return min(prices, default=None)
