"""Numbers and values as a reader of the report sees them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from html import escape
from typing import Any


def number(value: float | None, digits: int = 3) -> str:
    """The value with about `digits` significant digits, thousands separated; "unknown" for None.

    >>> number(1234.5), number(0.01234), number(8.0), number(None)
    ('1,234', '0.0123', '8', 'unknown')
    """
    if value is None:
        return "unknown"
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def duration_ms(value: float | None) -> str:
    """A duration with its unit, in seconds from 1 s on.

    >>> duration_ms(12.34), duration_ms(2500.0)
    ('12.3 ms', '2.5 s')
    """
    if value is None:
        return "unknown"
    return f"{number(value / 1e3)} s" if value >= 1000 else f"{number(value)} ms"


def percent(value: float | None, *, signed: bool = False) -> str:
    """A fraction in percent.

    >>> percent(0.634), percent(0.031, signed=True)
    ('63.4 %', '+3.1 %')
    """
    if value is None:
        return "unknown"
    return f"{100 * value:+.1f} %" if signed else f"{number(100 * value)} %"


def plural(count: int, noun: str) -> str:
    """The count with its noun.

    >>> plural(1, "request"), plural(1500, "request")
    ('1 request', '1,500 requests')
    """
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def moment(iso_utc: str) -> str:
    """A time stamp without seconds.

    >>> moment("2026-11-22T20:26:42+00:00")
    '2026-11-22 20:26 UTC'
    """
    return f"{iso_utc[:16].replace('T', ' ')} UTC"


def size_bytes(value: float | None) -> str:
    """A size in gigabytes.

    >>> size_bytes(25276502016)
    '25.3 GB'
    """
    return "unknown" if value is None else f"{number(value / 1e9)} GB"


def value_text(value: Any) -> str:
    """A setting or a property of the environment, escaped."""
    if value is None:
        return '<span class="quiet">none</span>'
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{escape(str(k))}: {value_text(v)}" for k, v in value.items())
        return inner or '<span class="quiet">none</span>'
    if isinstance(value, list | tuple):
        return ", ".join(value_text(one) for one in value) or '<span class="quiet">none</span>'
    if isinstance(value, float):
        return f"{value:g}"
    return escape(str(value))


def render_governors(governors: Mapping[str, Mapping[str, Any]]) -> str:
    """What is set on replicas, given by name, in words.

    >>> goodput, off = {"policy": "goodput", "ceiling": 4}, {"draft_length": 0}
    >>> render_governors({"r0": goodput, "r1": goodput})
    'policy goodput, ceiling 4'
    >>> render_governors({"r0": goodput, "r1": off})
    'policy goodput, ceiling 4 on r0; draft length 0 on r1'
    """
    names: dict[str, list[str]] = {}
    for name, change in governors.items():
        names.setdefault(_render_change(change), []).append(name)
    if len(names) == 1:
        return next(iter(names))
    return "; ".join(f"{text} on {', '.join(of_text)}" for text, of_text in names.items())


def _render_change(change: Mapping[str, Any]) -> str:
    return ", ".join(
        f"{key.replace('_', ' ')} {value if isinstance(value, str | int) else json.dumps(value)}"
        for key, value in change.items()
    )
