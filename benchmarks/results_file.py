"""Read and write raw results: compact JSON with one record per line, compressed for `.json.gz`.

Every top-level key begins a line, and so does every entry of a top-level list. Scripts name small
results `NAME.json` and large ones (above some 64 kB) `NAME.json.gz`. Equal documents give equal
bytes: the gzip header carries no time and no file name.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paceline.bench.results.files import write_bytes


def write_result(path: Path, document: Mapping[str, Any]) -> None:
    """Write the document atomically; gzip-compressed when the name ends in `.gz`."""
    data = render_result(document).encode()
    if path.suffix == ".gz":
        data = gzip.compress(data, compresslevel=9, mtime=0)
    write_bytes(path, data)


def read_result(path: Path) -> dict[str, Any]:
    """The document of a result file, compressed or not."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    document: dict[str, Any] = json.loads(data)
    return document


def sibling(path: Path, ending: str) -> Path:
    """The path of a file made from a result: `NAME.json.gz` and `.md` give `NAME.md`."""
    name = path.name.removesuffix(".gz").removesuffix(".json")
    return path.with_name(name + ending)


def render_result(document: Mapping[str, Any]) -> str:
    """The text of a result file.

    >>> print(render_result({"name": "x", "runs": [{"a": 1}, {"a": 2}]}), end="")
    {
    "name":"x",
    "runs":[
    {"a":1},
    {"a":2}
    ]
    }
    """
    lines = (f"{_compact(key)}:{_render_value(value)}" for key, value in document.items())
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _render_value(value: Any) -> str:
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(_compact(entry) for entry in value) + "\n]"
    return _compact(value)


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
