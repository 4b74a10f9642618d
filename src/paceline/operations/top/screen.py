"""Render the live view as text: figures, sparklines, replicas, events.

Pure: a `Watched` in, renderables of rich out. Names and texts come from other servers: they are
`Text`, so that no markup in them is interpreted, and control characters are replaced.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from paceline.foundation.command_line.printable import printable
from paceline.operations.top.history import Watched

_BARS = "▁▂▃▄▅▆▇█"
_NOTHING = "-"
_STATE_STYLES = {"ready": "green", "down": "bold red", "closed": "green", "open": "bold red"}

Format = Callable[[float | None], str]


def render(
    watched: Watched, *, width: int, height: int | None = None, status: str = "live"
) -> RenderableType:
    """The whole screen. A screen that is followed has a height: replicas and events that do not fit
    are left out."""
    latest = watched.latest
    replicas: Sequence[Mapping[str, Any]] = latest["replicas"]
    max_replicas, max_events = _rows(len(replicas), height)
    at = time.strftime("%H:%M:%S", time.localtime(latest["at_s"]))
    note = f"{status}, {at}; bars: up to five minutes{'' if height is None else '; Ctrl-C ends it'}"
    title = Text.assemble(("Paceline ", "bold"), (note, "dim"))
    parts: list[RenderableType] = [title, _figures(latest), _charts(watched, width)]
    parts.append(_replicas(replicas, max_replicas, width))
    if max_events:
        parts.append(_events(watched.events, max_events))
    return Group(*parts)


def sparkline(values: Sequence[float | None], width: int, top: float | None = None) -> str:
    """Bars from 0 to the highest value, a space where values are missing; the newest is last.

    More values than the width are joined: each bar is the mean of as many of them.

    >>> sparkline([0, None, 1, 2, 4], 5), sparkline([0, 0, 1, 1, 2, 2], 3)
    ('▁ ▃▅█', '▁▅█')
    """
    per_bar = math.ceil(len(values) / width) or 1
    kept = [_mean(values[max(0, end - per_bar) : end]) for end in range(len(values), 0, -per_bar)][
        ::-1
    ]
    highest = max((value for value in kept if value is not None), default=0.0)
    scale = top if top is not None else highest
    return "".join(" " if value is None else _bar(value, scale) for value in kept).rjust(width)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _bar(value: float, scale: float) -> str:
    if scale <= 0:
        return _BARS[0]
    level = int(min(value / scale, 1.0) * (len(_BARS) - 1) + 0.5)
    return _BARS[level]


def _rows(num_replicas: int, height: int | None) -> tuple[int, int]:
    """How many replicas and events are shown. Chosen so that a terminal of 24 lines shows both."""
    if height is None:
        return num_replicas, 10
    free = height - 17  # title, figures, charts, headings and lines of the tables
    max_replicas = max(3, min(num_replicas, free - 3))
    return max_replicas, max(0, min(10, free - max_replicas))


def _figures(latest: Mapping[str, Any]) -> Text:
    traffic, replicas = latest["traffic"], latest["replicas"]
    num_ready = sum(view["state"] == "ready" for view in replicas)
    num_tripped = sum(view["breaker"] not in (None, "closed") for view in replicas)
    failed = traffic["failed_per_s"]
    return Text("   ").join(
        [
            _figure("replicas", f"{num_ready} of {len(replicas)} ready", num_ready < len(replicas)),
            _figure("breakers tripped", str(num_tripped), num_tripped > 0),
            _figure("in flight", _whole(traffic["num_in_flight"])),
            _figure("waiting", _whole(traffic["num_waiting"])),
            _figure("requests/s", _decimal(traffic["requests_per_s"])),
            _figure("failed/s", _decimal(failed), bool(failed)),
        ]
    )


def _figure(name: str, value: str, is_problem: bool = False) -> Text:
    return Text.assemble((f"{name} ", "dim"), (value, "bold red" if is_problem else "bold"))


def _charts(watched: Watched, width: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    bars = max(10, min(300, width - 46))
    rows: list[tuple[str, str, str, Format, float | None]] = [
        ("draft length", "fleet", "draft_length", _decimal, None),
        ("acceptance", "fleet", "accepted_fraction", _fraction, 1.0),
        ("goodput, tokens/s", "fleet", "tokens_per_s", _decimal, None),
        ("  expected", "fleet", "expected_tokens_per_s", _decimal, None),
        ("time to first token, p50", "traffic", "ttft_p50_ms", _millis, None),
        ("  p99", "traffic", "ttft_p99_ms", _millis, None),
        ("time per output token, p50", "traffic", "tpot_p50_ms", _millis, None),
        ("  p99", "traffic", "tpot_p99_ms", _millis, None),
    ]
    for label, group, name, shown, top in rows:
        values = watched.series(group, name)
        now = values[-1] if values else None
        table.add_row(Text(label), Text(shown(now), "bold"), Text(sparkline(values, bars, top)))
    return table


def _replicas(replicas: Sequence[Mapping[str, Any]], max_rows: int, width: int) -> RenderableType:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), expand=True)
    table.add_column("replica", ratio=1, no_wrap=True, overflow="ellipsis")
    columns = [column for column in _COLUMNS if width >= column.min_width]
    for column in columns:
        table.add_column(column.name, justify=column.justify, no_wrap=True)
    # Those with a problem come first, so that none of them is left out.
    ordered = sorted(replicas, key=lambda view: not _has_problem(view))
    for view in ordered[:max_rows]:
        table.add_row(_clean(view["name"]), *(column.show(view) for column in columns))
    num_more = len(replicas) - max_rows
    if num_more <= 0:
        return table
    return Group(table, Text(f"and {num_more} more replicas", "dim"))


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the table of replicas."""

    name: str
    show: Callable[[Mapping[str, Any]], Text]
    min_width: int = 0
    """Of the terminal; a narrower one does without it."""
    justify: Literal["left", "right"] = "right"


def _condition(text: str | None) -> Text:
    if text is None:
        return Text(_NOTHING)
    return Text(text.replace("_", "-"), _STATE_STYLES.get(text, "yellow"))


_COLUMNS = (
    _Column("state", lambda view: _condition(view["state"]), justify="left"),
    _Column("breaker", lambda view: _condition(view["breaker"]), 72, "left"),
    _Column("length", lambda view: Text(_whole(view["draft_length"]))),
    _Column("acceptance", lambda view: Text(_fraction(view["accepted_fraction"]))),
    _Column("tokens/s", lambda view: Text(_decimal(view["tokens_per_s"]))),
    _Column("in flight", lambda view: Text(_whole(view["in_flight"])), 72),
    _Column("queue", lambda view: Text(_whole(view["waiting"])), 96),
    _Column("KV", lambda view: Text(_percent(view["kv_usage_fraction"])), 96),
)


def _has_problem(view: Mapping[str, Any]) -> bool:
    governor = view["governor"] or {}
    return (
        view["state"] != "ready"
        or view["breaker"] not in (None, "closed")
        or governor.get("uses_static_setting") is True
    )


def _events(events: Iterable[Mapping[str, Any]], max_rows: int) -> RenderableType:
    lines = [
        Text.assemble(
            (time.strftime("%H:%M:%S", time.localtime(event["at_s"])), "dim"), "  ",
            (_clean(event["replica"]).plain, "bold"), "  ",
            (_clean(event["text"]).plain, "red" if event["is_problem"] else ""),
            no_wrap=True, overflow="ellipsis",
        )
        for event in [*events][: -max_rows - 1 : -1]
    ]  # fmt: skip
    return Group(*(lines or [Text("no events yet", "dim")]))


def _clean(text: object) -> Text:
    """Text of another server, on one line and without control characters."""
    return Text(printable(text))


def _whole(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.0f}"


def _decimal(value: float | None) -> str:
    if value is None:
        return _NOTHING
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _fraction(value: float | None) -> str:
    return _NOTHING if value is None else f"{value:.2f}"


def _percent(value: float | None) -> str:
    return _NOTHING if value is None else f"{100 * value:.0f} %"


def _millis(value: float | None) -> str:
    if value is None:
        return _NOTHING
    return f"{_decimal(value / 1000)} s" if value >= 1000 else f"{_decimal(value)} ms"
