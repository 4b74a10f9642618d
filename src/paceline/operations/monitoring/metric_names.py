"""Which metrics a PromQL expression needs, and which of them a server does not have.

Not a parser of PromQL: names that are followed by a parenthesis are functions, those in the lists
of `by`, `on` and their like are labels, and what is in braces or brackets selects series. What is
left are metrics.

- `a or b` needs only one of its sides, unless that is `absent(…)` or has no metric.
- `absent(a)` is always true without `a`: it counts as missing, with a mark.
- A name with a variable of Grafana (`$a`, `${a}`, `[[a]]`), or a pattern as name, is not judged.
- An expression is not judged if more than 100 parentheses are open at one place.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

_VARIABLE = r"(?:\$\{[^}]*\}|\$\w|\[\[[\w:]+\]\])"
"""Of Grafana."""
_TOKEN = re.compile(
    rf"""
    (?P<blank>\s+|\#[^\n]*)
    |(?P<text>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|`[^`]*`)
    |(?P<number>(?:0x[0-9a-f]+|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)(?:(?:ms|[smhdwy])\d*)*)
    |(?P<name>(?:[a-z_:]|{_VARIABLE})(?:[\w:]|{_VARIABLE})*)
    |(?P<sign>.)
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_LABEL_LISTS = frozenset(("by", "without", "on", "ignoring", "group_left", "group_right"))
_WORDS = frozenset(
    (
        "and", "unless", "bool", "offset", "inf", "nan", "atan2", "sum", "min", "max", "avg",
        "group", "stddev", "stdvar", "count", "count_values", "bottomk", "topk", "quantile",
        "limitk", "limit_ratio",
    )
)  # fmt: skip
_MAX_DEPTH = 100
"""Each open parenthesis is some calls on the stack."""
_ABSENT = frozenset(("absent", "absent_over_time"))
_CLOSING = {"(": ")", "{": "}", "[": "]"}

Exists = Callable[[str], bool | None]
"""Whether a metric exists; None if that is not known."""


@dataclass(frozen=True, slots=True)
class MissingMetric:
    """A metric that an expression needs and a server does not have."""

    name: str
    is_absence: bool
    """Only `absent` looks at it: the condition is always true."""


@dataclass(frozen=True, slots=True)
class _Call:
    """What is between a pair of parentheses."""

    function: str
    content: tuple[_Part, ...]


_Part = str | _Call
"""A metric, "or", ",", or a call."""


def missing_metrics(expression: str, exists: Exists) -> list[MissingMetric]:
    """Those that are missing, each once, in order.

    >>> missing_metrics("rate(a[5m]) / on (job) b or c{d='e'}", {"a": False, "c": True}.get)
    []
    >>> [one.name for one in missing_metrics("rate(a[5m]) / c", {"a": False, "c": True}.get)]
    ['a']
    """
    tokens = list(_tokens(expression))
    if _depth(tokens) > _MAX_DEPTH:
        return []
    content, _ = _parse(tokens, 0)
    return list(dict.fromkeys(_missing(content, exists, is_absence=False)[0]))


def metric_names(expression: str) -> list[str]:
    """All of them, each once, in order.

    >>> metric_names('histogram_quantile(0.99, sum by (le) (rate(x_bucket{m="y"}[5m])))')
    ['x_bucket']
    """
    found: dict[str, None] = {}

    def note(name: str) -> bool | None:
        found[name] = None
        return None

    missing_metrics(expression, note)
    return list(found)


def _tokens(expression: str) -> Iterator[tuple[str, str]]:
    for match in _TOKEN.finditer(expression):
        if match.lastgroup != "blank":
            yield str(match.lastgroup), match[0]


def _depth(tokens: Sequence[tuple[str, str]]) -> int:
    """The most parentheses that are open at one place."""
    steps = ((text == "(") - (text == ")") for _, text in tokens)
    return max(itertools.accumulate(steps), default=0)


def _parse(tokens: Sequence[tuple[str, str]], at: int) -> tuple[tuple[_Part, ...], int]:
    """The parts up to the closing parenthesis, and the index after it."""
    parts: list[_Part] = []
    while at < len(tokens):
        kind, text = tokens[at]
        following = tokens[at + 1][1] if at + 1 < len(tokens) else ""
        if text == ")":
            return tuple(parts), at + 1
        if text == "(":
            content, at = _parse(tokens, at + 1)
            parts.append(_Call("", content))
        elif kind == "name" and text.lower() in _LABEL_LISTS:
            at = _after(tokens, at + 1) if following == "(" else at + 1
        elif kind == "name" and following == "(":
            content, at = _parse(tokens, at + 2)
            parts.append(_Call(text.lower(), content))
        elif text in ("{", "["):
            end = _after(tokens, at)
            parts += _selected(tokens[at + 1 : end - 1]) if text == "{" else ()
            at = end
        else:
            if text == "," or text.lower() == "or":
                parts.append(text.lower())
            elif kind == "name" and text.lower() not in _WORDS and not _has_variable(text):
                parts.append(text)
            at += 1
    return tuple(parts), at


def _has_variable(name: str) -> bool:
    return "$" in name or "[[" in name


def _after(tokens: Sequence[tuple[str, str]], at: int) -> int:
    """The index after the bracket that closes the one at `at`."""
    opening, closing = tokens[at][1], _CLOSING[tokens[at][1]]
    depth = 0
    for index in range(at, len(tokens)):
        depth += (tokens[index][1] == opening) - (tokens[index][1] == closing)
        if depth == 0:
            return index + 1
    return len(tokens)


def _selected(tokens: Sequence[tuple[str, str]]) -> list[str]:
    """The metrics that are named inside of braces: `__name__="a"`, or "a" alone."""
    texts = [text for _, text in tokens]
    found = []
    for index, (kind, text) in enumerate(tokens):
        before = texts[max(0, index - 2) : index]
        # A pattern has two signs, =~, between the label and the text.
        is_named = before in (["__name__", "="], ['"__name__"', "="])
        # A label may be in quotation marks too; then a sign follows it.
        is_alone = (not before or before[-1] == ",") and texts[index + 1 : index + 2] in ([], [","])
        if kind == "text" and (is_named or is_alone):
            found.append(text[1:-1])
    return found


def _missing(
    parts: Sequence[_Part], exists: Exists, *, is_absence: bool
) -> tuple[list[MissingMetric], bool]:
    """What is missing, and whether a metric exists whose value counts."""
    missing: list[MissingMetric] = []
    has_metric = False
    for argument in _split(parts, ","):
        sides = [_missing_of_side(side, exists, is_absence) for side in _split(argument, "or")]
        if not (len(sides) > 1 and any(has and not lacks for lacks, has in sides)):
            missing += [one for lacks, _ in sides for one in lacks]
        has_metric = has_metric or any(has for _, has in sides)
    return missing, has_metric


def _missing_of_side(
    parts: Sequence[_Part], exists: Exists, is_absence: bool
) -> tuple[list[MissingMetric], bool]:
    missing: list[MissingMetric] = []
    has_metric = False
    for part in parts:
        if isinstance(part, _Call):
            lacks, has = _missing(
                part.content, exists, is_absence=is_absence or part.function in _ABSENT
            )
            missing += lacks
            has_metric = has_metric or (has and part.function not in _ABSENT)
            continue
        known = exists(part)
        has_metric = has_metric or known is True
        if known is False:
            missing.append(MissingMetric(part, is_absence))
    return missing, has_metric


def _split(parts: Sequence[_Part], separator: str) -> list[list[_Part]]:
    """The parts between separators.

    >>> _split(["a", "or", "b"], "or")
    [['a'], ['b']]
    """
    groups: list[list[_Part]] = [[]]
    for part in parts:
        if part == separator:
            groups.append([])
        else:
            groups[-1].append(part)
    return groups
