"""HTML elements of the report: sections, tables, cards, lists. Texts are escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from paceline.bench.report.text import value_text


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
    """Names and values in two columns; with `names`, those keys only, under these names."""
    chosen = (
        {names[key]: values[key] for key in names if key in values}
        if names is not None
        else {str(key).replace("_", " "): value for key, value in values.items()}
    )
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{value_text(value)}</td></tr>"
        for name, value in chosen.items()
    )
    return f'<div class="scroll"><table class="properties"><tbody>{rows}</tbody></table></div>'


def bullets(texts: Iterable[str], css_class: str = "") -> str:
    items = "".join(f"<li>{escape(text)}</li>" for text in texts)
    attribute = f' class="{css_class}"' if css_class else ""
    return f"<ul{attribute}>{items}</ul>" if items else ""


def definitions(items: Mapping[str, str]) -> str:
    rows = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in items.items())
    return f"<dl>{rows}</dl>"


def figure(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"
