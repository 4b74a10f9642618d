"""The cost of a step on other hardware: the measured time, scaled by the roofline's ratio.

    seconds(shape) = measured(shape) * roofline(shape on the new) / roofline(shape on the old)

The roofline is that of `paceline plan`. An error that it makes on both machines cancels; one that
it makes on one of them remains, and widens the interval by `DEVIATION`.
"""

from __future__ import annotations

from dataclasses import dataclass

from paceline.foundation.capacity.step_time import StepTime
from paceline.testing.policy_simulator.machines.cost import CostFunction, StepShape

DEVIATION = 0.15
"""Relative standard deviation of the ratio: `paceline plan` states 25 % for an uncalibrated time,
taken as a 90 % interval."""


@dataclass(frozen=True, slots=True)
class ScaledCost:
    """A `CostFunction` on other hardware."""

    measured: CostFunction
    recorded_on: StepTime
    target: StepTime

    def step_s(self, shape: StepShape) -> float:
        """See `CostFunction`."""
        ratio = _roofline_s(self.target, shape) / _roofline_s(self.recorded_on, shape)
        return self.measured.step_s(shape) * ratio


def _roofline_s(times: StepTime, shape: StepShape) -> float:
    overheads = times.target.hardware.overheads
    requests = float(shape.num_requests)
    context = shape.context_tokens / requests if requests else 0.0
    verified = shape.verified_draft_tokens
    seconds = overheads.step_s + overheads.request_s * requests
    seconds += times.target.pass_s(shape.tokens, requests, context, requests + verified)
    if verified:
        seconds += overheads.verify_s + overheads.verify_token_s * verified
    if times.draft is not None and shape.draft_passes:
        seconds += shape.draft_passes * (
            overheads.draft_pass_s
            + overheads.draft_request_s * requests
            + times.draft.pass_s(requests, requests, context)
        )
    return seconds
