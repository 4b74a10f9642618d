"""Render docs/time-limits.md from the settings and from `gateway/time_limits.py`.

`PYTHONPATH=tools python -m time_limits.page > docs/time-limits.md` writes it.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from paceline.runtime.config.tree import Settings
from paceline.runtime.gateway import time_limits
from paceline.runtime.gateway.settings import GatewaySettings

_HEAD = """\
# Time limits

This page lists every time limit and period of the gateway, and those of the engines that can be
set. It is generated from `src/paceline/runtime/config/tree.py`,
`src/paceline/runtime/gateway/settings/` and `src/paceline/runtime/gateway/time_limits.py`.
[configuration.md](configuration.md) says how to change a setting. "Fixed" marks a constant in the
code.
"""
_FIXED_SECTIONS = ("admission", "failures", "keys", "fleet")


def render_page() -> str:
    """The whole page, in Markdown."""
    return "\n".join(
        [
            _HEAD,
            "| name | default | unit | what it bounds | where to set it |\n|---|---|---|---|---|",
            *_set_in_file(),
            *_set_in_python(),
            *_constants(),
            "",
        ]
    )


def _set_in_file() -> Iterator[str]:
    """Settings of `paceline.yaml`."""
    for section, field in Settings.model_fields.items():
        for name, setting in getattr(field.annotation, "model_fields", {}).items():
            if _is_time(name):
                where = f"`{section}.{name}`"
                yield _row(where, setting.default, "s", setting.description, f"{where} in the file")


def _set_in_python() -> Iterator[str]:
    """Fields of `GatewaySettings` that `paceline.yaml` does not have."""
    in_file = {
        name
        for field in Settings.model_fields.values()
        for name in getattr(field.annotation, "model_fields", {})
    }
    whole = GatewaySettings()
    for value in (whole, *(getattr(whole, section) for section in _FIXED_SECTIONS)):
        kind = type(value)
        described = _descriptions(importlib.import_module(kind.__module__), kind.__name__)
        for field in dataclasses.fields(value):
            if _is_time(field.name) and field.name not in in_file:
                yield _row(
                    f"`{kind.__name__}.{field.name}`",
                    getattr(value, field.name),
                    "s",
                    described[field.name],
                    "fixed in `paceline serve`; a field in Python",
                )


def _is_time(name: str) -> bool:
    """Whether a setting of this name is a time in seconds, and not a rate."""
    return name.endswith("_s") and not name.endswith("_per_s")


def _constants() -> Iterator[str]:
    for name, description in _descriptions(time_limits).items():
        unit = name.rpartition("_")[2].lower()
        yield _row(f"`{name}`", getattr(time_limits, name), unit, description, "fixed")


def _descriptions(module: ModuleType, class_name: str | None = None) -> dict[str, str]:
    """The string after each assignment, in the module or in one of its classes."""
    assert module.__file__ is not None
    body = ast.parse(Path(module.__file__).read_text(encoding="utf-8")).body
    if class_name is not None:
        body = next(
            node.body for node in body if isinstance(node, ast.ClassDef) and node.name == class_name
        )
    found = {}
    for node, following in itertools.pairwise(body):
        target: ast.expr | None = node.target if isinstance(node, ast.AnnAssign) else None
        if isinstance(node, ast.Assign):
            target = node.targets[0]
        text = following.value if isinstance(following, ast.Expr) else None
        if isinstance(target, ast.Name) and isinstance(text, ast.Constant):
            found[target.id] = str(text.value)
    return found


def _row(name: str, default: float, unit: str, meaning: str | None, where: str) -> str:
    return f"| {name} | {default:.10g} | {unit} | {' '.join((meaning or '').split())} | {where} |"


if __name__ == "__main__":
    sys.stdout.write(render_page())
