"""A policy's declaration: its name, its parameters with types and bounds, and its constructor.

Each policy declares itself next to its code, so that settings, error messages, the admin port and
the generated page `docs/policies.md` need no list of their own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from paceline.foundation.capacity.cost_table import CostTable
from paceline.foundation.command_line.near_names import did_you_mean
from paceline.runtime.governor.policy import Policy

_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_PARAMETER_NAME = re.compile(r"[a-z][a-z0-9_]*")
_RESERVED = ("max_draft_length", "max_step_s", "cost_table", "name", "policy")
"""Arguments of `create_policy` and `check_policy`, which take a policy's parameters beside them."""
_TYPE_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    list: "a list",
}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One setting of a policy, as users write it in YAML or JSON.

    >>> share = Parameter("share", float, "Of the ceiling.", default=0.5, lowest=0, highest=1)
    >>> share.read(1)
    1.0
    >>> share.read(2)
    Traceback (most recent call last):
    ValueError: share is 2; it must be a number from 0 to 1
    """

    name: str
    type: type
    """One of bool, int, float, str and list."""
    description: str
    """What it does, in one sentence, for the generated page."""
    default: Any = None
    """Used where no value is given. None leaves the choice to the policy."""
    is_required: bool = False
    """Whether the policy cannot be built without a value."""
    lowest: float | None = None
    highest: float | None = None
    parse: Callable[[Any], Any] | None = None
    """Checks a value of the right type further and converts it; raises ValueError."""

    def __post_init__(self) -> None:
        if not _PARAMETER_NAME.fullmatch(self.name) or self.name in _RESERVED:
            raise ValueError(
                f"parameter name is {self.name!r}; it must consist of lower-case letters, digits "
                f"and _, and must not be {', '.join(_RESERVED[:-1])} or {_RESERVED[-1]}"
            )
        if self.type not in _TYPE_WORDS:
            raise ValueError(
                f"type of parameter {self.name} is {self.type!r}; it must be one of "
                f"{', '.join(kind.__name__ for kind in _TYPE_WORDS)}"
            )
        if not self.description:
            raise ValueError(f"parameter {self.name} has no description; give one sentence")
        if self.default is not None:
            self.read(self.default)

    @property
    def allowed(self) -> str:
        """The allowed values in words."""
        words = _TYPE_WORDS[self.type]
        if self.lowest is not None and self.highest is not None:
            return f"{words} from {self.lowest:g} to {self.highest:g}"
        if self.lowest is not None:
            return f"{words}, {self.lowest:g} or more"
        if self.highest is not None:
            return f"{words}, {self.highest:g} or less"
        return words

    def read(self, value: Any) -> Any:
        """The value as the policy takes it; ValueError says what was given and what is allowed."""
        converted = value
        if self.type is float and type(value) is int:
            converted = float(value)
        elif self.type is list and isinstance(value, list | tuple):
            converted = list(value)  # a new one, so that policies do not share a default
        if type(converted) is not self.type or not self._is_in_bounds(converted):
            raise ValueError(f"{self.name} is {_shown(value)}; it must be {self.allowed}")
        if self.parse is None:
            return converted
        try:
            return self.parse(converted)
        except ValueError:
            raise
        except Exception as error:
            raise ValueError(
                f"{self.name} is {_shown(value)}, which cannot be read: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _is_in_bounds(self, value: Any) -> bool:
        if self.type is float and not math.isfinite(value):
            return False
        return (self.lowest is None or value >= self.lowest) and (
            self.highest is None or value <= self.highest
        )


@dataclass(frozen=True, slots=True)
class PolicyDefinition:
    """A policy under its name.

    `create(max_draft_length, **parameters)` builds it; `max_draft_length` is the engine's ceiling,
    1 or more.
    """

    name: str
    summary: str
    """What the policy does, in one sentence, for help texts and the generated page."""
    create: Callable[..., Policy]
    parameters: tuple[Parameter, ...] = ()
    takes_max_step_s: bool = False
    """Whether `create` also takes `max_step_s`, the objective for the time of one step."""
    takes_cost_table: bool = False
    """Whether `create` also takes `cost_table`, the durations measured at the start of the engine;
    None where there are none."""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"policy name is {self.name!r}; it must consist of lower-case letters, digits, - "
                "and _"
            )
        if not self.summary:
            raise ValueError(f"policy {self.name} has no summary; give one sentence")
        names = [parameter.name for parameter in self.parameters]
        if len(set(names)) != len(names):
            raise ValueError(f"policy {self.name} declares a parameter twice: {', '.join(names)}")

    def read_parameters(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The values for `create`, defaults included; a value of None counts as not given.

        ValueError names an unknown parameter, a missing one, or a value that is not allowed.
        """
        known = {parameter.name: parameter for parameter in self.parameters}
        for name in given:
            if name not in known:
                raise ValueError(
                    f"policy {self.name} has no parameter {str(name)[:100]!r}; "
                    f"its parameters: {', '.join(known) or 'none'}{did_you_mean(name, known)}"
                )
        values: dict[str, Any] = {}
        for name, parameter in known.items():
            value = given.get(name)
            if value is not None:
                values[name] = parameter.read(value)
            elif parameter.is_required:
                raise ValueError(
                    f"policy {self.name} needs the parameter {name}: {parameter.description}"
                )
            elif parameter.default is not None:
                values[name] = parameter.read(parameter.default)
        return values

    def build(
        self,
        *,
        max_draft_length: int,
        parameters: Mapping[str, Any],
        max_step_s: float = math.inf,
        cost_table: CostTable | None = None,
    ) -> Policy:
        """A new policy; ValueError says which value is wrong, or what its constructor raised."""
        values = self.read_parameters(parameters)
        if self.takes_max_step_s:
            values["max_step_s"] = max_step_s
        if self.takes_cost_table:
            values["cost_table"] = cost_table
        try:
            return self.create(max_draft_length, **values)
        except ValueError:
            raise
        except Exception as error:
            raise ValueError(
                f"policy {self.name} cannot be built: {type(error).__name__}: {error}"
            ) from error


def _shown(value: object) -> str:
    return repr(value)[:100]
