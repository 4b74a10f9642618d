"""How does a large results document stay readable, and its changes small?"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any


def render_results(document: Mapping[str, Any], row_lists: Sequence[str]) -> str:
    """Indented JSON, but every entry of the named lists, which come last, on a line of its own.

    There must be something beside the lists.
    """
    head = {key: value for key, value in document.items() if key not in row_lists}
    parts = [json.dumps(head, indent=1).removesuffix("\n}")]
    for key in row_lists:
        rows = ",\n  ".join(json.dumps(row, separators=(",", ":")) for row in document[key])
        parts.append(f'"{key}": [\n  {rows}\n ]' if rows else f'"{key}": []')
    return ",\n ".join(parts) + "\n}\n"
