"""Methods are wrapped once by each part, and only where the installed vLLM fits."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from paceline.engine.compat import wrapping
from paceline.engine.compat.wrapping import fits, is_wrapped, wrap_once


class Runner:
    """A class of vLLM."""

    def sample(self, number: int) -> int:
        return number


def tenfold(stock: Any, runner: Runner, number: int) -> int:
    return 10 * int(stock(runner, number=number))


def test_a_method_is_wrapped_once_by_each_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each calls the one before, and vLLM's own can be found."""
    stock = Runner.sample
    monkeypatch.setattr(Runner, "sample", stock)
    for part in ("one", "other", "one"):
        wrap_once(Runner, "sample", part, tenfold)
    assert Runner().sample(3) == 300
    assert inspect.unwrap(Runner.sample) is stock
    assert [is_wrapped(Runner.sample, part) for part in ("one", "other", "third")] == [
        True,
        True,
        False,
    ]


def test_a_method_of_one_object_is_wrapped_for_it_alone() -> None:
    wrapped, other = Runner(), Runner()
    wrap_once(wrapped, "sample", "one", lambda stock, number: stock(number) + 1)
    assert (wrapped.sample(3), other.sample(3)) == (4, 3)


@pytest.mark.parametrize("misfit", ["", "sample is missing"])
def test_a_part_that_does_not_fit_says_what_happens_otherwise(
    misfit: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(wrapping, "check_hooks", lambda part: {})
    monkeypatch.setattr(wrapping, "unfit_for", lambda part, found: misfit)
    assert fits("early_stop", otherwise="All drafts are verified.") is (misfit == "")
    assert caplog.messages == (
        [
            "Paceline: early_stop is off, because this vLLM does not fit its hooks: sample is "
            "missing. All drafts are verified."
        ]
        if misfit
        else []
    )
