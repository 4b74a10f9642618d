"""Ctrl-C asks for a stop; the second one interrupts."""

from __future__ import annotations

import signal

import pytest

from paceline.foundation.models.interruption import stop_on_signals
from paceline.foundation.models.values import Interrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_sets_the_request_and_the_second_interrupts(number: int) -> None:
    before = signal.getsignal(number)
    with stop_on_signals() as stop:
        stop.raise_if_set()
        signal.raise_signal(number)
        assert stop.is_set
        with pytest.raises(Interrupted):
            stop.raise_if_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(number)
    assert signal.getsignal(number) == before
