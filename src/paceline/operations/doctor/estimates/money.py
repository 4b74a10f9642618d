"""What lost throughput or capacity costs: its part of the price of the machines.

    part = lost / (present + lost)                       of tokens/s; of capacity: the share itself
    USD per hour = price of the engines per hour * part
    USD per 1M output tokens = price per 1M at the present tokens/s * part

The same tokens would need fewer hours of the machines by that part. So the second figure is the
price per 1M at the present throughput, less that at the possible one. Both hold for the load that
was observed. Engines are counted as equal parts of the machines. Prompts are free, as in
`paceline cost`: output pays for them.

Other losses have no price here. A request that waits, or is refused, takes no machine; how long a
failed one was computed is not known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from paceline.foundation.capacity.cost import usd_per_million_tokens
from paceline.operations.doctor.values import Cost, CostUnit


@dataclass(frozen=True, slots=True)
class MachinePrice:
    """What all engines of a server cost together."""

    usd_per_hour: float
    """Of one machine."""
    num_machines: int = 1

    def __post_init__(self) -> None:
        if not 0 < self.usd_per_hour < math.inf or self.num_machines < 1:
            raise ValueError(
                f"{self.num_machines} machines at {self.usd_per_hour} USD per hour; both must be "
                "above 0"
            )

    @property
    def total_usd_per_hour(self) -> float:
        """Of all machines."""
        return self.usd_per_hour * self.num_machines


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount of money."""

    amount: float
    low: float | None = None
    """Lower end of the interval, below 0 where nothing may be lost; None for an exact amount."""
    high: float | None = None

    def times(self, factor: float) -> Amount:
        """All of it multiplied."""
        return Amount(
            self.amount * factor,
            None if self.low is None else self.low * factor,
            None if self.high is None else self.high * factor,
        )


@dataclass(frozen=True, slots=True)
class MoneyLost:
    """What a finding costs while the load stays as it was observed."""

    usd_per_hour: Amount
    usd_per_million_output_tokens: Amount | None
    """None where the tokens/s are not known."""


def money_lost(
    cost: Cost, price: MachinePrice, num_affected: int, num_engines: int
) -> MoneyLost | None:
    """The price of what is lost; None if that cannot be derived, or nothing is lost.

    `num_affected` of the `num_engines` engines give the tokens/s that the cost speaks of; a cost
    in capacity is of all engines.

    >>> from paceline.operations.doctor.values import Basis
    >>> half = Cost(
    ...     Basis.MEASURED, "", CostUnit.TOKENS_PER_S, 500.0, 0.0, 500.0, present_tokens_per_s=500.0
    ... )
    >>> lost = money_lost(half, MachinePrice(3.6), num_affected=1, num_engines=1)
    >>> lost.usd_per_hour, lost.usd_per_million_output_tokens
    (Amount(amount=1.8, low=0.0, high=1.8), Amount(amount=1.0, low=0.0, high=1.0))
    """
    if cost.amount is None or cost.amount <= 0 or not 0 < num_affected <= num_engines:
        return None
    if cost.unit is CostUnit.PERCENT_OF_CAPACITY:
        return MoneyLost(Amount(price.total_usd_per_hour * cost.amount / 100), None)
    present = cost.present_tokens_per_s
    if cost.unit is not CostUnit.TOKENS_PER_S or not present:
        return None

    def part(lost: float | None) -> float | None:
        return None if lost is None else lost / (present + lost)

    usd_per_hour = price.total_usd_per_hour * num_affected / num_engines
    parts = Amount(cost.amount / (present + cost.amount), part(cost.low), part(cost.high))
    return MoneyLost(
        parts.times(usd_per_hour), parts.times(usd_per_million_tokens(usd_per_hour, present))
    )
