"""Read the YAML and JSON that people write, without a second meaning of any text.

PyYAML and `json` let the last of two equal keys win, which silently drops what stood under the
first. YAML 1.1 also reads `off` as false, `1:30` as 90 and `010` as 8. Here only `true` and `false`
are booleans, as in YAML 1.2; dates are texts, and so is 12e4, which may be a part of a hash. What
two readers could take differently, and what no file of settings needs, is an error:

- a key that is repeated, in any mapping, and a merge key (`<<`)
- tags (`!!binary`), anchors and aliases; several documents in one file
- whole numbers with leading zeros or beyond 64 bits, and numbers with underscores or colons
- characters that only some programs take for the end of a line
- in JSON: NaN, Infinity and numbers that overflow
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import yaml

MAX_DEPTH = 64
"""Deepest nesting; the settings have five levels. Chosen empirically."""

_TAG = "tag:yaml.org,2002:"
_MAX_WHOLE = 2**63 - 1
_LINE_ENDS = re.compile("[\x85\u2028\u2029]")
"""YAML 1.1 ends a comment there, YAML 1.2 and editors do not."""


class StrictFileError(ValueError):
    """The text is not what it must be; the message says where and why."""


class StrictDumper(yaml.SafeDumper):
    """Quotes every text that one of the readers would take for something else, and repeats a value
    instead of an alias."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


class _StrictLoader(yaml.SafeLoader):
    """Reads the nodes; `_value` turns them into values, in place of PyYAML's constructors."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if event.anchor is not None:
            raise _error("anchors and aliases (&, *) are not allowed; write the value out", event)
        if event.tag is not None:
            raise _error("tags (such as !!str) are not allowed; put a text in quotes", event)
        if self._depth == MAX_DEPTH:
            raise _error(f"more than {MAX_DEPTH} levels of nesting", event)
        self._depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _value(node: Any) -> Any:
    if isinstance(node, yaml.SequenceNode):
        return [_value(item) for item in node.value]
    if isinstance(node, yaml.MappingNode):
        return _mapping(node)
    read = _SCALARS.get(node.tag.removeprefix(_TAG))
    return node.value if read is None else read(node)


def _mapping(node: yaml.MappingNode) -> dict[Any, Any]:
    built: dict[Any, Any] = {}
    seen: set[str] = set()
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode):
            raise _error("a key must be a text", key_node)
        key = _value(key_node)
        if str(key) in seen:
            raise _error(f"the key {str(key)[:100]!r} is repeated; give it once", key_node)
        seen.add(str(key))
        built[key] = _value(value_node)
    return built


def _refuse_merge(node: yaml.ScalarNode) -> Any:
    raise _error("the merge key << is not allowed; write the settings out", node)


def _refuse_ambiguous(node: yaml.ScalarNode) -> Any:
    raise _error(
        f"{node.value[:50]} could be read as several numbers; write the number in decimal, without "
        "leading zeros, underscores or colons, or put a text in quotes",
        node,
    )


def _whole(node: yaml.ScalarNode) -> int:
    # The length comes first: Python refuses to read thousands of digits.
    number = int(node.value, 0) if len(node.value) < 30 else _MAX_WHOLE + 1
    if abs(number) > _MAX_WHOLE:
        raise _error(f"{node.value[:50]} is too large for a whole number", node)
    return number


def _float(node: yaml.ScalarNode) -> float:
    return float(node.value.lower().replace(".inf", "inf").replace(".nan", "nan"))


_SCALARS: Mapping[str, Callable[[yaml.ScalarNode], Any]] = {
    "bool": lambda node: node.value.lower() == "true",
    "null": lambda node: None,
    "int": _whole,
    "float": _float,
    "ambiguous": _refuse_ambiguous,
    "merge": _refuse_merge,
}
"""By the kind that a plain scalar looks like; everything else is a text."""
_StrictLoader.yaml_implicit_resolvers = {}
for _kind, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    (
        "ambiguous",
        r"[-+]?(0[0-9_]+|[0-9][0-9]*_[0-9_]*|[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?"
        r"|[0-9][0-9_]*_[0-9_]*\.[0-9_]*([eE][-+][0-9]+)?|0[bx][0-9a-fA-F]*_[0-9a-fA-F_]*)",
        "-+0123456789",
    ),
    ("int", r"[-+]?(0|[1-9][0-9]*)|0x[0-9a-fA-F]+", "-+0123456789"),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*)([eE][-+][0-9]+)?"
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


def load_yaml(text: str) -> Any:
    """The value of a YAML (or JSON) document; None for one that is empty.

    Raises `StrictFileError`.

    >>> load_yaml("policy: off")
    {'policy': 'off'}
    """
    documents = load_yaml_documents(text)
    if len(documents) > 1:
        raise StrictFileError("another document begins (---); a file has one")
    return documents[0] if documents else None


def load_yaml_documents(text: str) -> list[Any]:
    """The values of all documents of a text, for files in which several are usual."""
    if found := _LINE_ENDS.search(text):
        line = text.count("\n", 0, found.start()) + 1
        raise StrictFileError(
            f"the character U+{ord(found[0]):04X} is not allowed, because some programs end the "
            f'line there; in a text in quotes write "\\u{ord(found[0]):04x}" (line {line})'
        )
    try:
        return [_value(node) for node in yaml.compose_all(text, _StrictLoader)]
    except yaml.MarkedYAMLError as error:
        raise StrictFileError(_explain(error)) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise StrictFileError(str(error)) from None


def dump_yaml(value: Any, **options: Any) -> str:
    """The value as YAML that `load_yaml` and readers of YAML 1.1 read in the same way; `options`
    are those of `yaml.dump`."""
    text: str = yaml.dump(value, Dumper=StrictDumper, **options)
    return text


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
