"""The page of a measurement, from its JSON document."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.foundation.results.files import write_text
from paceline.foundation.results.frame import render_page
from paceline.workbench.bench.report import compare_page, run_page

_PAGES = {"paceline bench run": run_page, "paceline bench compare": compare_page}
_SCHEMA_VERSION = 1


class ReportError(Exception):
    """A document cannot be shown. The message says what it is and what is allowed."""


def render_report(document: Mapping[str, Any]) -> str:
    """The page of a document of `paceline bench run` or `compare`; ReportError for any other."""
    kind = document.get("kind")
    page = _PAGES.get(str(kind))
    if page is None:
        raise ReportError(
            f"its kind is {kind!r}; it must be the JSON of one of {', '.join(_PAGES)}"
        )
    if document.get("schema_version") != _SCHEMA_VERSION:
        raise ReportError(
            f"its schema_version is {document.get('schema_version')!r}; this release reads "
            f"{_SCHEMA_VERSION}"
        )
    try:
        title, subtitle = page.title(document), page.subtitle(document)
        body = "".join(page.sections(document))
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise ReportError(
            f"it lacks a part of a {kind} document ({type(error).__name__}: {error})"
        ) from error
    return render_page(title, subtitle, body)


def write_report(path: Path, document: Mapping[str, Any]) -> None:
    """Write the page atomically."""
    write_text(path, render_report(document))
