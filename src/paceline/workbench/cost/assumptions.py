"""Put into words what the figures of a cost calculation rest on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from paceline.foundation.capacity.cost import HOURS_PER_MONTH
from paceline.workbench.cost.measured import Measurement, differences


@dataclass(frozen=True, slots=True)
class CostInputs:
    """What the user stated. Prices are for one machine, in US dollars per hour."""

    usd_per_hour: float
    num_machines: int = 1
    """Machines that the measured server ran on."""
    utilization: float = 1.0
    """The largest fraction of the measured rate that the machines may carry."""
    requests_per_day: float | None = None
    peak_factor: float = 1.0
    baseline_usd_per_hour: float | None = None
    """None: the same price."""
    baseline_num_machines: int | None = None
    """None: the same number."""
    price_source: str | None = None
    """Of a price from the catalogue."""

    @property
    def group_usd_per_hour(self) -> float:
        """Of all machines of the measured server."""
        return self.usd_per_hour * self.num_machines

    @property
    def baseline_group_usd_per_hour(self) -> float:
        price = self.baseline_usd_per_hour
        machines = self.baseline_num_machines
        return (self.usd_per_hour if price is None else price) * (
            self.num_machines if machines is None else machines
        )


def assumptions(
    inputs: CostInputs, mine: Measurement, baseline: Measurement | None
) -> Iterator[str]:
    """Every assumption, one sentence each."""
    machines = "1 machine" if inputs.num_machines == 1 else f"{inputs.num_machines} machines"
    yield (
        f"The measured server runs on {machines} at ${inputs.usd_per_hour:g} per hour each, paid "
        "by the hour, busy or idle."
    )
    if inputs.price_source is not None:
        yield f"The price is that of the catalogue: {inputs.price_source}."
    use = f"{100 * inputs.utilization:g} % of its measured rate"
    if inputs.requests_per_day is None:
        yield (
            f"It always carries {use} (--utilization); what it carries less costs more per token. "
            "At 100 % nothing is left for peaks."
        )
    else:
        yield (
            f"It carries at most {use}, at the peak (--utilization). At 100 % nothing is left "
            "above the peak."
        )
    yield (
        f"The measured rate is that of {mine.file}: {_load_text(mine)}. Another load gives "
        "another rate."
    )
    yield "More machines bring proportionally more throughput."
    yield (
        f"A month has {HOURS_PER_MONTH:g} hours. Only machines are counted, at list price: no "
        "network, storage, staff or discounts."
    )
    if inputs.requests_per_day is not None:
        yield (
            f"The load is {inputs.requests_per_day:,g} requests per day like the measured ones, "
            f"and its peak is {inputs.peak_factor:g} times its mean (--peak-factor). Machines for "
            "the peak are paid all day."
        )
    if baseline is not None:
        yield (
            f"The baseline is {baseline.file}: {_load_text(baseline)}; its machines cost "
            f"${inputs.baseline_group_usd_per_hour:g} per hour together."
        )


def warnings(mine: Measurement, baseline: Measurement | None) -> Iterator[str]:
    """What speaks against the figures."""
    yield from mine.warnings
    if baseline is not None:
        yield from (f"baseline: {warning}" for warning in baseline.warnings)
        for difference in differences(mine, baseline):
            yield f"the runs differ in more than the server: {difference}"


def _load_text(measurement: Measurement) -> str:
    parts = [f"model {measurement.model}"]
    parts += [f"{name} {value}" for name, value in measurement.load.items() if value is not None]
    return ", ".join(parts)
