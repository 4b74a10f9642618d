"""Fit the hardware of a plan to two measured step times of a server.

The step of one request scales everything: bandwidth, arithmetic and overheads. The difference to
the step of n requests then sets the time per request, and the time per step makes up for it. So the
fitted hardware reproduces both measurements. Where that would need a negative time per request or
per step, it is 0 and the fit is not exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from paceline.foundation.capacity.hardware import Hardware


@dataclass(frozen=True, slots=True)
class MeasuredSteps:
    """Step times without speculation, measured and predicted by the hardware to be fitted."""

    num_requests: int
    """Of the larger batch; at least 2."""
    one_s: float
    """Measured with one request."""
    many_s: float
    """Measured with `num_requests`."""
    predicted_one_s: float
    predicted_many_s: float

    def __post_init__(self) -> None:
        if self.num_requests < 2 or min(self.one_s, self.many_s, self.predicted_one_s) <= 0:
            raise ValueError(
                f"steps of 1 and {self.num_requests} requests took {self.one_s} s and "
                f"{self.many_s} s; there must be at least 2 requests and both times above 0"
            )

    @property
    def factor(self) -> float:
        """Measured over predicted time, with one request."""
        return self.one_s / self.predicted_one_s


def fit_hardware(hardware: Hardware, measured: MeasuredSteps) -> Hardware:
    """Return the hardware at the measured pace."""
    scaled = hardware.calibrated(measured.factor)
    others = measured.num_requests - 1
    predicted_each_s = (
        measured.factor * (measured.predicted_many_s - measured.predicted_one_s) / others
    )
    extra_s = (measured.many_s - measured.one_s) / others - predicted_each_s
    request_s = max(0.0, scaled.overheads.request_s + extra_s)
    moved_s = request_s - scaled.overheads.request_s
    step_s = max(0.0, scaled.overheads.step_s - moved_s)
    return replace(scaled, overheads=replace(scaled.overheads, request_s=request_s, step_s=step_s))
