"""The price of a replica."""

from __future__ import annotations

import pytest

from paceline.foundation.planning.sources.catalogue import load_catalogue
from paceline.workbench.plan.replay.hardware_choice import HardwareChoice, choose_scaling


@pytest.mark.parametrize("recorded_on", [None, "h100"])
def test_a_price_is_that_of_one_gpu(recorded_on: str | None) -> None:
    """A replica of 4 GPUs at $2.50 each costs $10, whether or not the GPUs are named."""
    choice = HardwareChoice(
        gpu=None,
        num_gpus=1,
        recorded_on=recorded_on,
        recorded_num_gpus=4,
        model=None,
        draft="none",
        usd_per_hour=2.5,
    )
    assert choose_scaling(choice, load_catalogue(None)).usd_per_hour == pytest.approx(10.0)
