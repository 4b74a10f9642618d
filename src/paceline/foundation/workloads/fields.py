"""Read the fields of a parsed JSON or YAML object; errors name the place and the field."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from paceline.foundation.command_line.near_names import did_you_mean, nearest

MAX_COUNT = 10_000_000
"""Of tokens or requests: more than any model's context, and than one machine can send."""

_MISSPELT_LIKENESS = 0.85
"""By `difflib`: max_token and max_tokens have 0.95, min_tokens and max_tokens 0.8. Chosen
empirically."""


class WorkloadError(Exception):
    """A workload cannot be used. The message says what was found and what is allowed."""


class FieldReader:
    """One object of a file, such as a line of JSONL.

    `where` begins every message ("prompts.jsonl, line 3"). Each method returns None for a field
    that is absent or null, and raises WorkloadError for a value that it does not allow.

    >>> FieldReader({"rate": 2}, "load.yaml, phase 1").number("rate", above=0)
    2.0
    """

    def __init__(self, item: object, where: str) -> None:
        if not isinstance(item, dict):
            raise WorkloadError(f"{where} holds {type(item).__name__}; it must be a JSON object")
        self._item: Mapping[str, Any] = item
        self.where = where

    def __contains__(self, name: str) -> bool:
        return self._item.get(name) is not None

    @property
    def names(self) -> tuple[str, ...]:
        """The fields that it has, also those that are null."""
        return tuple(map(str, self._item))

    def refuse_unknown(self, allowed: Sequence[str]) -> None:
        """Refuse fields that nothing reads, such as misspelt ones."""
        unknown = [str(name) for name in self._item if name not in allowed]
        if unknown:
            raise self.error(
                f"{unknown[0]} is unknown; allowed fields are {', '.join(allowed)}"
                f"{did_you_mean(unknown[0], allowed)}"
            )

    def refuse_misspelt(self, read: Sequence[str | tuple[str, ...]]) -> None:
        """Refuse a field that resembles one that the form reads and this object lacks.

        For forms of public data sets, whose further columns are not read. A tuple has names of
        which one is enough.

        >>> FieldReader({"text": "a", "lang": "en"}, "line 1").refuse_misspelt(["text", "delay"])
        """
        groups = [(one,) if isinstance(one, str) else one for one in read]
        names = [name for group in groups for name in group]
        lacking = [n for group in groups if not any(g in self._item for g in group) for n in group]
        for given in map(str, self._item):
            meant = None if given in names else nearest(given, lacking, _MISSPELT_LIKENESS)
            if meant is not None:
                raise self.error(
                    f"{given} is unknown and resembles {meant}; the fields that are read are "
                    f"{', '.join(names)}"
                )

    def one_of(self, names: Sequence[str]) -> str | None:
        """The only field among `names` that is present; None if there is none."""
        present = [name for name in names if name in self]
        if len(present) > 1:
            raise self.error(f"{' and '.join(present)} exclude each other; give one of them")
        return present[0] if present else None

    def raw(self, name: str) -> Any:
        """The value as parsed."""
        return self._item.get(name)

    def text(self, name: str) -> str | None:
        """A string, which may be empty."""
        value = self._item.get(name)
        if value is not None and not isinstance(value, str):
            raise self.error(f"{name} is {type(value).__name__}; it must be a string")
        return value

    def word(self, name: str) -> str | None:
        """A string that is not empty."""
        value = self._item.get(name)
        if name in self._item and (not isinstance(value, str) or not value):
            raise self.error(f"{name} is {value!r}; it must be a non-empty string")
        return value

    def count(self, name: str, lowest: int = 1) -> int | None:
        """A whole number from `lowest` to `MAX_COUNT`; 8.0 is one, as some tools write it."""
        value = self._item.get(name)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if type(value) is not int:
            raise self.error(f"{name} is {value!r}; it must be a whole number")
        if value < lowest:
            raise self.error(f"{name} is {value}; it must be at least {lowest}")
        if value > MAX_COUNT:
            raise self.error(f"{name} is {value}; it must be at most {MAX_COUNT:,}")
        return value

    def number(
        self, name: str, lowest: float | None = None, above: float | None = None
    ) -> float | None:
        """A finite number, at least `lowest` and above `above` where they are given."""
        value = self._item.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(f"{name} is {value!r}; it must be a number")
        if not math.isfinite(value):
            raise self.error(f"{name} is {value}; it must be a finite number")
        if lowest is not None and value < lowest:
            raise self.error(f"{name} is {value}; it must be at least {lowest:g}")
        if above is not None and not value > above:
            raise self.error(f"{name} is {value}; it must be above {above:g}")
        return float(value)

    def flag(self, name: str) -> bool | None:
        """true or false."""
        value = self._item.get(name)
        if value is not None and not isinstance(value, bool):
            raise self.error(f"{name} is {value!r}; it must be true or false")
        return value

    def items(self, name: str) -> list[Any] | None:
        """A list that is not empty."""
        value = self._item.get(name)
        if value is not None and not (isinstance(value, list) and value):
            raise self.error(f"{name} is {value!r}; it must be a non-empty list")
        return value

    def error(self, message: str) -> WorkloadError:
        """An error that names this object."""
        return WorkloadError(f"{self.where}: {message}")
