"""HTML elements of the report: sections, tables, cards, lists. Texts are escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from paceline.foundation.results.text import moment, size_bytes, value_text

_ENVIRONMENT = {
    "date_utc": "date",
    "python": "Python",
    "cpu_model": "processor",
    "num_logical_cores": "logical cores",
    "memory_bytes": "memory",
    "load_average_1_min": "load average over 1 minute, before the run",
    "paceline": "Paceline",
    "dirty": "uncommitted changes",
    "numpy": "NumPy",
    "vllm_server": "vLLM of the server",
    "vllm_installed": "vLLM on the machine of the load generator",
}


def section(heading: str, *content: str) -> str:
    return f"<section><h2>{escape(heading)}</h2>{''.join(content)}</section>"


def paragraph(text: str, css_class: str = "") -> str:
    attribute = f' class="{css_class}"' if css_class else ""
    return f"<p{attribute}>{escape(text)}</p>"


def cards(items: Iterable[tuple[str, str, str]]) -> str:
    """Boxes with a value, its unit and its name."""
    boxes = (
        f'<div class="card"><div class="name">{escape(name)}</div>'
        f'<div class="value">{escape(value)}<span class="unit"> {escape(unit)}</span></div></div>'
        for name, value, unit in items
    )
    return f'<div class="cards">{"".join(boxes)}</div>'


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is text and whose other columns are numbers."""
    head = "".join(f"<th>{escape(one)}</th>" for one in heads)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody>'
        "</table></div>"
    )


def properties(values: Mapping[str, Any], names: Mapping[str, str] | None = None) -> str:
    """Names and values in two columns; with `names`, those keys that have a value, so named."""
    chosen = (
        {names[key]: values[key] for key in names if values.get(key) is not None}
        if names is not None
        else {str(key).replace("_", " "): value for key, value in values.items()}
    )
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{value_text(value)}</td></tr>"
        for name, value in chosen.items()
    )
    return f'<div class="scroll"><table class="properties"><tbody>{rows}</tbody></table></div>'


def environment(values: Mapping[str, Any]) -> str:
    """The machine and the versions, under names for readers."""
    named = {_ENVIRONMENT.get(key, key.replace("_", " ")): value for key, value in values.items()}
    named["date"] = moment(values["date_utc"])
    named["memory"] = size_bytes(values.get("memory_bytes"))
    return properties({name: value for name, value in named.items() if value is not None})


def bullets(texts: Iterable[str], css_class: str = "") -> str:
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    attribute = f' class="{css_class}"' if css_class else ""
    return f"<ul{attribute}>{items}</ul>" if items else ""


def definitions(items: Mapping[str, str]) -> str:
    rows = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in items.items())
    return f"<dl>{rows}</dl>"


def figure(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"
