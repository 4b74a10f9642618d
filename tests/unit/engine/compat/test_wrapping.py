"""Methods are wrapped once by each part, and only where the installed vLLM fits."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from paceline.runtime.engine.compat import wrapping
from paceline.runtime.engine.compat.wrapping import Wrappers, fits, is_wrapped, wrap_once


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


def test_a_part_wraps_its_methods_when_the_model_runner_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The log names the module of the wrappers."""
    registered: list[Any] = []
    monkeypatch.setattr(
        wrapping, "when_model_runner_loads", lambda *given: registered.append(given)
    )
    monkeypatch.setattr(wrapping, "check_hooks", lambda part: {})
    monkeypatch.setattr(wrapping, "unfit_for", lambda part, found: "")
    monkeypatch.setattr(Runner, "sample", Runner.sample)
    Wrappers("one", {f"{__name__}:Runner.sample": tenfold}).register()
    [(wrap, module)] = registered
    assert (Runner().sample(3), module) == (3, __name__)
    wrap()
    assert Runner().sample(3) == 30


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
