"""The files of a model's folder that vLLM loads as its weights.

A folder may have the weights twice: shards with an index beside one consolidated file, or
safetensors beside older pickles. vLLM loads one copy: safetensors first, and of them those that the
index names.
"""

from __future__ import annotations

import json
from pathlib import Path

_INDEX = "model.safetensors.index.json"
_CONSOLIDATED = "consolidated"
"""Begins the names of files in Mistral's own layout, which vLLM reads with an option of its own."""
_OTHER_WEIGHTS = ("*.bin", "*.gguf", "*.pt")


class BrokenIndex(ValueError):
    """An index that names no files; the message names it."""


def loaded_safetensors(folder: Path) -> list[Path]:
    """Return the safetensors files that vLLM loads, sorted; none where there are none.

    Raises `BrokenIndex`.
    """
    files = sorted(folder.glob("*.safetensors"))
    index = folder / _INDEX
    if index.is_file():
        try:
            named = set(json.loads(index.read_text(encoding="utf-8-sig"))["weight_map"].values())
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BrokenIndex(f"{index} is no index of safetensors files: {error!r}") from None
        return [file for file in files if file.name in named]
    first = [file for file in files if not file.name.startswith(_CONSOLIDATED)]
    return first or files


def loaded_bytes(folder: Path) -> int:
    """Return the size of the weights that vLLM loads, as files; 0 without any."""
    try:
        files = loaded_safetensors(folder)
    except BrokenIndex:  # reported where the folder is checked
        files = sorted(folder.glob("*.safetensors"))
    if not files:
        files = [file for pattern in _OTHER_WEIGHTS for file in folder.glob(pattern)]
    return sum(file.stat().st_size for file in files)
