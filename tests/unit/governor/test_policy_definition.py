"""Declarations of parameters and policies: what they read, and what they refuse."""

from __future__ import annotations

import doctest
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from paceline.runtime.governor import policy_definition
from paceline.runtime.governor.policies.fixed import FixedPolicy
from paceline.runtime.governor.policy_definition import Parameter, PolicyDefinition


def test_the_examples_in_the_docstrings_run() -> None:
    assert doctest.testmod(policy_definition).failed == 0


def declared(*parameters: Parameter) -> PolicyDefinition:
    return PolicyDefinition("test", "A test.", lambda ceiling, **_: FixedPolicy(0), parameters)


@pytest.mark.parametrize(
    ("parameter", "value", "read"),
    [
        (Parameter("x", float, "x."), 2, 2.0),
        (Parameter("x", int, "x.", lowest=1, highest=3), 3, 3),
        (Parameter("x", int, "x.", lowest=1, highest=3), 1, 1),
        (Parameter("x", bool, "x."), False, False),
        (Parameter("x", str, "x."), "b", "b"),
        (Parameter("x", list, "x.", parse=tuple), [1, 2], (1, 2)),
    ],
)
def test_a_value_is_read(parameter: Parameter, value: Any, read: Any) -> None:
    assert parameter.read(value) == read
    assert type(parameter.read(value)) is type(read)


@pytest.mark.parametrize(
    ("parameter", "value", "message"),
    [
        (Parameter("x", int, "x."), True, "x is True; it must be a whole number"),
        (Parameter("x", int, "x."), 1.0, r"x is 1\.0; it must be a whole number"),
        (Parameter("x", float, "x."), float("nan"), "x is nan; it must be a number"),
        (Parameter("x", float, "x.", highest=1), 2, "x is 2; it must be a number, 1 or less"),
        (Parameter("x", bool, "x."), 1, "x is 1; it must be true or false"),
        (Parameter("x", str, "x."), 3, "x is 3; it must be a text"),
        (Parameter("x", list, "x."), "abc", "x is 'abc'; it must be a list"),
    ],
)
def test_a_value_that_is_not_allowed_is_refused(
    parameter: Parameter, value: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        parameter.read(value)


def test_defaults_and_required_parameters() -> None:
    """A default is filled in; None counts as not given; a missing one is named."""
    definition = declared(
        Parameter("width", int, "Width.", default=3),
        Parameter("table", list, "The table.", is_required=True),
        Parameter("depth", int, "Depth; by default the policy's own."),
    )
    assert definition.read_parameters({"table": [], "depth": None}) == {"width": 3, "table": []}
    with pytest.raises(ValueError, match="policy test needs the parameter table: The table"):
        definition.read_parameters({})
    with pytest.raises(
        ValueError, match="no parameter 'hight'; its parameters: width, table, depth"
    ):
        definition.read_parameters({"hight": 1})
    with pytest.raises(ValueError, match="no parameter 'x'; its parameters: none"):
        declared().read_parameters({"x": 1})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": "Max"}, "parameter name is 'Max'"),
        (
            {"name": "max_draft_length"},
            "must not be max_draft_length, max_step_s, cost_table, name or policy",
        ),
        ({"name": "name"}, "parameter name is 'name'"),
        ({"name": "policy"}, "parameter name is 'policy'"),
        ({"type": dict}, "it must be one of bool, int, float, str, list"),
        ({"description": ""}, "has no description"),
        ({"default": "3"}, "x is '3'; it must be a whole number"),
    ],
)
def test_wrong_declarations_of_parameters_are_refused(
    arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        Parameter(**({"name": "x", "type": int, "description": "x."} | arguments))


def test_wrong_declarations_of_policies_are_refused() -> None:
    with pytest.raises(ValueError, match="policy name is 'My Policy'"):
        PolicyDefinition("My Policy", "Mine.", FixedPolicy)
    with pytest.raises(ValueError, match="has no summary"):
        PolicyDefinition("mine", "", FixedPolicy)
    with pytest.raises(ValueError, match="declares a parameter twice: x, x"):
        declared(Parameter("x", int, "x."), Parameter("x", int, "x."))


def test_the_objective_reaches_a_policy_that_takes_it() -> None:
    given: dict[str, Any] = {}

    def create(ceiling: int, **values: Any) -> FixedPolicy:
        given.update(values, ceiling=ceiling)
        return FixedPolicy(0)

    definition = PolicyDefinition("test", "A test.", create, takes_max_step_s=True)
    definition.build(max_draft_length=5, parameters={}, max_step_s=0.1)
    assert given == {"ceiling": 5, "max_step_s": 0.1}


def test_a_default_is_read_like_a_given_value() -> None:
    """A whole number for a float becomes a float, and `parse` converts it."""
    definition = declared(
        Parameter("share", float, "Share.", default=1),
        Parameter("table", list, "Table.", default=[1, 2], parse=tuple),
    )
    values = definition.read_parameters({})
    assert values == {"share": 1.0, "table": (1, 2)}
    assert type(values["share"]) is float


def test_policies_do_not_share_a_default_list() -> None:
    """What one policy does to its list, the next one does not see."""
    definition = declared(Parameter("table", list, "Table.", default=[1]))
    definition.read_parameters({})["table"].append(2)
    assert definition.read_parameters({}) == {"table": [1]}


@pytest.mark.parametrize("value", [[], ["a"]])
def test_a_check_that_fails_otherwise_refuses_the_value(value: list[object]) -> None:
    """An exception of `parse` that is no ValueError names the parameter all the more."""
    parameter = Parameter("table", list, "Table.", parse=lambda given: 1 / given[0])
    with pytest.raises(ValueError, match=r"table is \[.*\], which cannot be read: \w+Error: "):
        parameter.read(value)


def test_any_error_of_the_constructor_names_the_policy() -> None:
    """A ValueError is the policy's own message and stays as it is."""

    def create(ceiling: int, *, table: list[int]) -> FixedPolicy:
        return FixedPolicy(table[0])

    definition = PolicyDefinition(
        "test", "A test.", create, (Parameter("table", list, "Table.", default=[]),)
    )
    with pytest.raises(ValueError, match="policy test cannot be built: IndexError: list index"):
        definition.build(max_draft_length=5, parameters={})
    with pytest.raises(ValueError, match=r"^draft_length is -1; it must be 0"):
        definition.build(max_draft_length=5, parameters={"table": [-1]})


def test_long_values_and_names_are_cut_to_a_hundred_characters_in_messages() -> None:
    with pytest.raises(ValueError, match=rf"x is '{'v' * 99}; it must be a whole number"):
        Parameter("x", int, "x.").read("v" * 500)
    with pytest.raises(ValueError, match=rf"no parameter '{'n' * 100}'; its parameters"):
        declared().read_parameters({"n" * 500: 1})


@pytest.mark.parametrize("value", [Parameter("x", int, "x."), declared()])
def test_declarations_do_not_change(value: Any) -> None:
    with pytest.raises(FrozenInstanceError):
        value.name = "y"
    assert not hasattr(value, "__dict__")
