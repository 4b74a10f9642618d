"""Fitted hardware gives back the step times that it was fitted to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paceline.foundation.capacity.calibration import MeasuredSteps, fit_hardware
from paceline.foundation.capacity.hardware import Hardware, Overheads
from paceline.foundation.capacity.model.hf_config import read_model_config
from paceline.foundation.capacity.model.weight_format import WeightFormat
from paceline.foundation.capacity.step_time import StepTime, model_time
from unit.capacity.machines import GPU
from unit.capacity.model.configs import LLAMA

SLOW_HOST = replace(GPU, overheads=Overheads(4e-3, 1e-4, 3e-4, 0.0, 0.0, 0.0))


def step_s(hardware: Hardware, requests: int) -> float:
    shape = read_model_config(LLAMA)
    time = model_time(shape, WeightFormat("bfloat16", "bfloat16"), (), hardware, 1)
    return StepTime(time, None).decode_s(requests, 0)


@pytest.mark.parametrize(("one_s", "many_s"), [(0.006, 0.010), (0.003, 0.0035), (0.02, 0.05)])
def test_both_measurements_are_reproduced(one_s: float, many_s: float) -> None:
    measured = MeasuredSteps(8, one_s, many_s, step_s(SLOW_HOST, 1), step_s(SLOW_HOST, 8))
    fitted = fit_hardware(SLOW_HOST, measured)
    assert step_s(fitted, 1) == pytest.approx(one_s)
    assert step_s(fitted, 8) == pytest.approx(many_s)


def test_the_time_per_request_is_never_negative() -> None:
    measured = MeasuredSteps(8, 0.01, 0.005, step_s(SLOW_HOST, 1), step_s(SLOW_HOST, 8))
    assert fit_hardware(SLOW_HOST, measured).overheads.request_s == 0.0


def test_times_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 2 requests and both times above 0"):
        MeasuredSteps(1, 0.01, 0.01, 0.01, 0.01)
