"""Print the effective settings as YAML that can be used as the settings file.

Each setting has its description above it and the source of its value after it. A setting that would
be refused as empty is printed as a comment.
"""

from __future__ import annotations

import textwrap
from typing import Any

from pydantic import BaseModel

from paceline.foundation.files.strict_files import dump_yaml
from paceline.runtime.config.protection import why_empty_refused
from paceline.runtime.config.sources import Key, LoadedSettings

_WIDTH = 96


def render_settings(loaded: LoadedSettings) -> str:
    """The whole tree. Loading the result gives the same values."""
    return "\n".join(_render(loaded, loaded.settings, ())) + "\n"


def _render(loaded: LoadedSettings, node: BaseModel, prefix: Key) -> list[str]:
    indent = "  " * len(prefix)
    lines: list[str] = []
    for name, field in type(node).model_fields.items():
        value = getattr(node, name)
        description = " ".join((field.description or "").split())
        lines += textwrap.wrap(
            description, _WIDTH, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# "
        )
        key = (*prefix, name)
        if isinstance(value, BaseModel):
            lines += [f"{indent}{name}:", *_render(loaded, value, key)]
        else:
            plain = _plain(node, name)
            unset = why_empty_refused(".".join(key), plain) is not None
            text = f"# {name}:" if unset else f"{name}: {_scalar(plain)}"
            lines.append(f"{indent}{text}  # {loaded.origin(key)}")
    return lines


def _plain(node: BaseModel, name: str) -> Any:
    """The value in terms of YAML; entries of a list without what they leave out."""
    plain = node.model_dump(mode="json", include={name})[name]
    if isinstance(getattr(node, name), tuple) and any(isinstance(one, dict) for one in plain):
        plain = [
            {field: value for field, value in one.items() if value is not None} for one in plain
        ]
    return plain


def _scalar(value: Any) -> str:
    text = dump_yaml(value, default_flow_style=True, width=10_000)
    return text.removesuffix("\n").removesuffix("\n...").removesuffix("...").strip()
