"""Read the YAML and JSON that people write, without a second meaning of any text.

PyYAML and `json` let the last of two equal keys win, which silently drops what stood under the
first. YAML 1.1 also reads `off` as false, `1:30` as 90 and `010` as 8. Here only `true` and `false`
are booleans, as in YAML 1.2; dates are texts, and so is 12e4, which may be a part of a hash. What
two readers could take differently is an error:

- a key that is repeated, in any mapping, also when one of the two comes from a merge key (`<<`)
- several documents in one file, and an alias of a value that is not complete
- whole numbers with leading zeros, and numbers with colons
- in JSON: NaN, Infinity and numbers that overflow
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Hashable, Mapping
from typing import Any

import yaml

MAX_DEPTH = 64
"""Deepest nesting; the settings have five levels. Chosen empirically."""

_TAG = "tag:yaml.org,2002:"
_AMBIGUOUS = re.compile(r"[-+]?(0[0-9_]+|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?)")


class StrictFileError(ValueError):
    """The text is not what it must be; the message says where and why."""


class StrictDumper(yaml.SafeDumper):
    """Quotes every text that one of the readers would take for something else."""


class _StrictLoader(yaml.SafeLoader):
    """Builds mappings whose keys differ."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._open_anchors: set[str] = set()
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        is_alias = isinstance(event, yaml.AliasEvent)
        if is_alias and event.anchor in self._open_anchors:
            raise _error("an alias refers to a value that contains it", event)
        if self._depth == MAX_DEPTH:
            raise _error(f"more than {MAX_DEPTH} levels of nesting", event)
        opened = set() if is_alias or event.anchor is None else {event.anchor}
        self._open_anchors |= opened
        self._depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        self._open_anchors -= opened
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise _error("this must be a mapping", node)
        built: dict[Hashable, Any] = {}
        seen: set[str] = set()
        for key_node, value_node in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                raise _error("a key must be a text", key_node)
            if str(key) in seen:
                raise _error(f"the key {str(key)[:100]!r} is repeated; give it once", key_node)
            seen.add(str(key))
            built[key] = self.construct_object(value_node, deep=deep)
        return built

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Merge keys are refused when they are read."""


def _construct_mapping(loader: _StrictLoader, node: yaml.MappingNode) -> Any:
    built: dict[Hashable, Any] = {}
    yield built
    built.update(loader.construct_mapping(node))


def _refuse_merge(loader: _StrictLoader, node: yaml.Node) -> Any:
    raise _error("the merge key << is not allowed; write the settings out", node)


def _refuse_ambiguous(loader: _StrictLoader, node: yaml.ScalarNode) -> Any:
    raise _error(
        f"{node.value[:50]} could be read as several numbers; write the number in decimal, without "
        "leading zeros or colons, or put a text in quotes",
        node,
    )


def _construct_int(loader: _StrictLoader, node: yaml.ScalarNode) -> int:
    try:
        return int(loader.construct_scalar(node), 0)
    except ValueError:
        raise _error(f"{node.value[:50]!r} is not a whole number", node) from None


def _construct_float(loader: _StrictLoader, node: yaml.ScalarNode) -> float:
    text = loader.construct_scalar(node).lower().replace(".inf", "inf").replace(".nan", "nan")
    try:
        return float(text)
    except ValueError:
        raise _error(f"{node.value[:50]!r} is not a number", node) from None


_StrictLoader.yaml_implicit_resolvers = {}
for _kind, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("ambiguous", _AMBIGUOUS.pattern, "-+0123456789"),
    ("int", r"[-+]?(0|[1-9][0-9_]*)|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9][0-9_]*\.[0-9]*)([eE][-+][0-9]+)?"
        r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+0123456789.",
    ),
    ("null", r"null|Null|NULL|~|", "nN~"),
    ("merge", r"<<", "<"),
):
    for _reader in (_StrictLoader, StrictDumper):
        _reader.add_implicit_resolver(
            f"{_TAG}{_kind}",
            re.compile(f"^(?:{_pattern})$"),
            [*_first, ""] if _kind == "null" else list(_first),
        )
_constructors: Mapping[str, Callable[[_StrictLoader, Any], Any]] = {
    "map": _construct_mapping,
    "merge": _refuse_merge,
    "ambiguous": _refuse_ambiguous,
    "int": _construct_int,
    "float": _construct_float,
}
for _kind, _construct in _constructors.items():
    _StrictLoader.add_constructor(f"{_TAG}{_kind}", _construct)


def load_yaml(text: str) -> Any:
    """The value of a YAML (or JSON) document; None for one that is empty.

    Raises `StrictFileError`.

    >>> load_yaml("policy: off")
    {'policy': 'off'}
    """
    return _load(text, several=False)


def dump_yaml(value: Any, **options: Any) -> str:
    """The value as YAML that `load_yaml` and readers of YAML 1.1 read in the same way; `options`
    are those of `yaml.dump`."""
    text: str = yaml.dump(value, Dumper=StrictDumper, **options)
    return text


def load_yaml_documents(text: str) -> list[Any]:
    """The values of all documents of a text, for files in which several are usual."""
    found: list[Any] = _load(text, several=True)
    return found


def load_json(text: str) -> Any:
    """The value of a JSON text. Raises `StrictFileError`."""
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except StrictFileError:
        raise
    except (ValueError, RecursionError) as error:
        raise StrictFileError(str(error)) from None


def _load(text: str, *, several: bool) -> Any:
    try:
        loader = _StrictLoader(text)
        try:
            if not several:
                return loader.get_single_data()
            documents = []
            while loader.check_data():  # type: ignore[no-untyped-call]
                documents.append(loader.get_data())
            return documents
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        raise StrictFileError(_explain(error)) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise StrictFileError(str(error)) from None


def _explain(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    place = "" if mark is None else f" (line {mark.line + 1}, column {mark.column + 1})"
    return ": ".join(filter(None, (error.context, error.problem))) + place


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    built: dict[str, Any] = {}
    for key, value in pairs:
        if key in built:
            raise StrictFileError(f"the key {key[:100]!r} is repeated; give it once")
        built[key] = value
    return built


def _refuse_constant(name: str) -> Any:
    raise StrictFileError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise StrictFileError(f"{text[:50]} is too large")
    return number


def _error(reason: str, place: Any) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, reason, place.start_mark)
