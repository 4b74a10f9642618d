"""Options of commands refuse numbers that are not finite."""

from __future__ import annotations

from typing import Any

import click
import pytest

from paceline.cli import main
from paceline.foundation.command_line.finite_float import FiniteFloat
from paceline.workbench.plan.command import plan_model


@pytest.mark.parametrize("text", ["nan", "-nan", "NaN", "inf", "-inf", "Infinity", "1e999"])
def test_what_is_not_finite_is_refused(text: str) -> None:
    for bounds in ({}, {"min": 0}, {"min": 0, "min_open": True, "max": 1}):
        with pytest.raises(click.BadParameter, match=r"finite number|not in the range"):
            FiniteFloat(**bounds).convert(text, None, None)


def test_a_missing_bound_does_not_admit_infinity() -> None:
    with pytest.raises(click.BadParameter, match="'inf' is not a finite number"):
        FiniteFloat(min=0).convert("inf", None, None)


def test_finite_numbers_within_the_bounds_pass() -> None:
    assert FiniteFloat(min=0, max=1).convert("0.25", None, None) == 0.25
    assert FiniteFloat(min=0).convert(0, None, None) == 0.0
    with pytest.raises(click.BadParameter, match="not in the range"):
        FiniteFloat(min=0, min_open=True).convert("0", None, None)
    with pytest.raises(click.BadParameter, match="not a valid"):
        FiniteFloat().convert("three", None, None)


def float_options(command: click.Command, words: tuple[str, ...]) -> list[Any]:
    """The float options of a command and its subcommands as (words, option name, type)."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        found = []
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            found += float_options(inner, (*words, name))
        return found
    return [
        (words, option.opts[0], option.type)
        for option in command.params
        if isinstance(option.type, click.types.FloatParamType)
    ]


@pytest.mark.parametrize("words", [("bench",), ("cost",)])
def test_every_float_option_is_finite(words: tuple[str, ...]) -> None:
    options = [one for one in float_options(main, ()) if one[0][:1] == words]
    assert options
    assert [one[:2] for one in options if not isinstance(one[2], FiniteFloat)] == []


def test_every_float_option_of_a_plan_is_finite() -> None:
    """The command of a model is no subcommand of `paceline plan`, which takes models, too."""
    options = float_options(plan_model, ("plan",))
    assert options
    assert [one[:2] for one in options if not isinstance(one[2], FiniteFloat)] == []
