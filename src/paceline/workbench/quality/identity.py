"""Identify a model folder by all of its content, so that stored scores belong to these weights.

`paceline.runtime.engine.model_revision` samples the weights, which is enough to tell two models of
a server apart. Here two folders may differ in single numbers, such as a candidate before and after
a repair.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from paceline.foundation.quantized.source_model import checksums

_READ = (
    "*.safetensors", "*.bin", "*.pt", "*.gguf",
    "*.json", "*.jinja", "*.model", "*.tiktoken", "merges.txt", "vocab.txt",
)  # fmt: skip
"""Weights, configuration, tokenizer and chat template."""
_DIGEST_CHARS = 32


def identity_of_folder(folder: Path, on_bytes: Callable[[int], None] = lambda _: None) -> str:
    """The SHA-256 of the names and contents of a folder's files, as 32 hexadecimal digits.

    `on_bytes` gets the bytes of each read, and may raise to stop. Raises OSError for a file that
    cannot be read.
    """
    files = {path for pattern in _READ for path in folder.glob(pattern) if path.is_file()}
    found = checksums(sorted(files), on_bytes)
    content = json.dumps({name: entry["sha256"] for name, entry in found.items()}, sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:_DIGEST_CHARS]
