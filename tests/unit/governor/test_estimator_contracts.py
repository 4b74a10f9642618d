"""Every estimator of the governor keeps its contract; the tests find the estimators themselves.

A class of the package with `observe` and without `plan` is an estimator, of samples or of numbers.
A new one is checked as soon as it exists; if it needs an argument that `_ARGUMENTS` does not have,
the tests say so.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any, get_type_hints

import numpy as np
import pytest

import paceline.runtime.governor
from paceline.runtime.governor.contract.samples import (
    extreme_samples,
    ordinary_sample,
    varied_samples,
)
from paceline.runtime.governor.costs.cost_model import CostModel
from paceline.runtime.governor.values import StepSample

MAX = 8
EXTREMES = extreme_samples(MAX)
_ARGUMENTS: dict[str, Callable[[], Any]] = {
    "max_draft_length": lambda: MAX,
    "table": lambda: None,
}


def _classes() -> Iterator[type]:
    for info in pkgutil.walk_packages(
        paceline.runtime.governor.__path__, "paceline.runtime.governor."
    ):
        module = importlib.import_module(info.name)
        for name, found in inspect.getmembers(module, inspect.isclass):
            is_own = found.__module__ == module.__name__ and not name.startswith("_")
            if is_own and hasattr(found, "observe") and not hasattr(found, "plan"):
                yield found


def _observes_samples(found: type) -> bool:
    hints = get_type_hints(found.observe)  # type: ignore[attr-defined]
    return StepSample in hints.values()


ALL = list(_classes())
SAMPLED = [found for found in ALL if _observes_samples(found)]


def build(found: type) -> Any:
    required = [
        name
        for name, parameter in inspect.signature(found).parameters.items()
        if parameter.default is inspect.Parameter.empty
    ]
    unknown = set(required) - set(_ARGUMENTS)
    assert not unknown, f"{found.__name__} needs {unknown}: add it to _ARGUMENTS"
    return found(**{name: _ARGUMENTS[name]() for name in required})


def test_the_estimators_were_found() -> None:
    """The discovery finds classes that certainly exist."""
    assert {found.__name__ for found in SAMPLED} >= {"AcceptanceByClass", "CostModel", "Dispersion"}


@pytest.mark.parametrize("found", SAMPLED)
def test_samples_are_not_mutated(found: type) -> None:
    """Although the values are frozen, nested ones are compared too."""
    samples = varied_samples(50, MAX)
    before = copy.deepcopy(samples)
    built = build(found)
    for one in samples:
        built.observe(one)
    assert samples == before


@pytest.mark.parametrize("found", SAMPLED)
def test_the_same_samples_make_the_same_estimator(found: type) -> None:
    """All numbers within are equal, and stay so after a copy."""
    first, second = build(found), build(found)
    for one in varied_samples(80, MAX):
        first.observe(one)
        second.observe(one)
    assert list(_numbers(first)) == list(_numbers(second))
    copied = copy.deepcopy(first)
    for one in varied_samples(20, MAX, seed=1):
        first.observe(one)
        copied.observe(one)
    assert list(_numbers(first)) == list(_numbers(copied))


@pytest.mark.parametrize("found", SAMPLED)
@pytest.mark.parametrize("samples", EXTREMES.values(), ids=EXTREMES.keys())
def test_an_estimator_tolerates_extremes(found: type, samples: list[StepSample]) -> None:
    """Every number in it stays finite."""
    estimator = build(found)
    for one in [*samples, *varied_samples(20, MAX), *samples]:
        estimator.observe(one)
        assert _is_finite(estimator)


def test_the_numbers_of_an_estimator_are_found() -> None:
    """The search for numbers that are not finite looks inside arrays, tables and containers: two
    sizes with nine lengths each, of two kinds, a covariance of nine, and rows of 9 and 9."""
    model = CostModel(None, MAX)
    model.observe(ordinary_sample())
    assert len(list(_numbers(model))) > 36 + 9 + 18


def _is_finite(value: Any) -> bool:
    """Whether all numbers inside are finite; arrays at once, for there are thousands of them."""
    if isinstance(value, np.ndarray):
        return bool(np.isfinite(value).all())
    if isinstance(value, int | float):
        return math.isfinite(value)
    return all(map(_is_finite, _parts(value)))


def _numbers(value: Any) -> Iterator[float]:
    """All numbers inside, in a fixed order."""
    if isinstance(value, int | float):
        yield float(value)
    elif isinstance(value, np.ndarray):
        yield from _numbers(value.tolist())
    else:
        for part in _parts(value):
            yield from _numbers(part)


def _parts(value: Any) -> Iterator[Any]:
    """What a container or an object of ours holds, in a fixed order."""
    if isinstance(value, dict):
        yield from (value[key] for key in sorted(value, key=repr))
    elif isinstance(value, set | frozenset):
        yield from sorted(value)
    elif isinstance(value, list | tuple) or type(value).__name__ == "deque":
        yield from value
    elif type(value).__module__.startswith("paceline."):
        slots = [name for owner in type(value).__mro__ for name in getattr(owner, "__slots__", ())]
        for name in sorted({*slots, *getattr(value, "__dict__", {})}):
            yield getattr(value, name)
