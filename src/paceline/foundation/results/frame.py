"""The page around the sections: one file without external resources."""

from __future__ import annotations

from html import escape
from importlib import resources


def render_page(title: str, subtitle: str, body: str) -> str:
    """One self-contained page; `body` is HTML, the other texts are escaped here."""
    style = resources.files(__package__).joinpath("style.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{style}</style></head>"
        f'<body><main><h1>{escape(title)}</h1><p class="subtitle">{escape(subtitle)}</p>'
        f"{body}</main></body></html>\n"
    )
