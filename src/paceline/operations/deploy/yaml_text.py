"""Write YAML: keys in the order of the values, no anchors, long lines unbroken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import yaml

from paceline.foundation.files.strict_files import StrictDumper


class _Dumper(StrictDumper):
    """Indents lists."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def render_yaml(value: Any) -> str:
    """One document."""
    return yaml.dump(
        value,
        Dumper=_Dumper,
        sort_keys=False,
        default_flow_style=False,
        width=2**31,
        allow_unicode=True,
    )


def render_documents(values: Sequence[Any], comments: Iterable[str] = ()) -> str:
    """Documents in one text, after comment lines."""
    head = "".join(f"# {line}\n" for line in comments)
    return head + "---\n".join(render_yaml(value) for value in values)
