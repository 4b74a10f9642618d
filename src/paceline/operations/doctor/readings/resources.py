"""Find groups of rules and dashboards where clusters hold them: at the top of a file, or inside.

Inside means in items of a list, in values of a chart, in the specification of a custom resource,
and in the texts of a ConfigMap, a Secret or a GrafanaDashboard. So the whole document is searched,
and each text in it that looks like a rule file or a dashboard is read.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from paceline.foundation.files.strict_files import StrictFileError, load_json, load_yaml_documents

_MAX_TEXTS = 2
"""Texts within texts. One is usual: a chart's value may hold a ConfigMap, which holds a file."""
_GROUPS_KEY = re.compile(r"^[ -]*[\"']?groups[\"']?[ ]*:", re.MULTILINE)
_GROUPS_IN_JSON = re.compile(r"\"groups\"\s*:")
_BOARD_IN_JSON = re.compile(r"\"(?:panels|rows|elements)\"\s*:")

_Mapping = Mapping[str, Any]


class NoMonitors(Exception):
    """The document is no rule file or dashboard. The message says what is missing."""


def read_text(text: str) -> list[Any]:
    """The documents of a text: one of JSON, or those of YAML. Raises `StrictFileError`."""
    return [load_json(text)] if _is_json(text) else load_yaml_documents(text)


def rule_groups(documents: list[Any]) -> Iterator[list[_Mapping]]:
    """Each list of groups in the documents. Raises NoMonitors for a text that cannot be read."""
    for found in _search(documents, "", _holds_groups, _looks_like_rules, _MAX_TEXTS):
        yield found["groups"]


def dashboards(documents: list[Any]) -> Iterator[_Mapping]:
    """Each dashboard in the documents. Raises NoMonitors for a text that cannot be read."""
    return _search(documents, "", _is_dashboard, _looks_like_dashboard, _MAX_TEXTS)


def _search(
    value: Any,
    place: str,
    is_wanted: Callable[[_Mapping], bool],
    looks_wanted: Callable[[str], bool],
    num_texts: int,
) -> Iterator[_Mapping]:
    """The outermost mappings that are wanted, in order."""
    if isinstance(value, dict):
        if is_wanted(value):
            yield value
            return
        is_secret = value.get("kind") == "Secret"
        for key, inner in value.items():
            if is_secret and key == "data" and isinstance(inner, dict):
                inner = {name: _decoded(text) for name, text in inner.items()}
            yield from _search(inner, str(key), is_wanted, looks_wanted, num_texts)
    elif isinstance(value, list):
        for inner in value:
            yield from _search(inner, place, is_wanted, looks_wanted, num_texts)
    elif isinstance(value, str) and num_texts and looks_wanted(value):
        try:
            documents = read_text(value)
        except StrictFileError as error:
            raise NoMonitors(f"the text of {place!r} cannot be read: {error}") from error
        yield from _search(documents, place, is_wanted, looks_wanted, num_texts - 1)


def _holds_groups(value: _Mapping) -> bool:
    groups = value.get("groups")
    return isinstance(groups, list) and all(isinstance(group, dict) for group in groups)


def _looks_like_rules(text: str) -> bool:
    return (_GROUPS_IN_JSON if _is_json(text) else _GROUPS_KEY).search(text) is not None


def _is_dashboard(value: _Mapping) -> bool:
    """By its panels; by its rows until Grafana 5, and by its elements in the model's version 2."""
    elements = value.get("elements")
    return (
        isinstance(value.get("panels"), list)
        or isinstance(value.get("rows"), list)
        or (isinstance(elements, dict) and all(isinstance(one, dict) for one in elements.values()))
    )


def _looks_like_dashboard(text: str) -> bool:
    return _is_json(text) and _BOARD_IN_JSON.search(text) is not None


def _is_json(text: str) -> bool:
    return text[:100].lstrip().startswith(("{", "["))


def _decoded(text: Any) -> str | None:
    """The text of a Secret's value; None for bytes that are no text."""
    try:
        return base64.b64decode(text, validate=True).decode("utf-8")
    except (binascii.Error, TypeError, ValueError):
        return None
