"""Model folders for tests, with just the files that the checks read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

VOCABULARY = {"a": 0, "b": 1}

WORDS = [f"\u0120word{i}" for i in range(150)]
"""150 words with a leading space, as GPT-2's tokenizer writes them."""


def make_model(
    folder: Path, vocab_size: int = 4, vocabulary: dict[str, int] = VOCABULARY, **tokenizer: Any
) -> Path:
    """Write configuration, tokenizer and weights; `tokenizer` replaces keys of tokenizer.json."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"vocab_size": vocab_size}))
    content = {"model": {"vocab": vocabulary}, "added_tokens": [], **tokenizer}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    (folder / "model.safetensors").write_bytes(b"12345")
    return folder


def numbered(*tokens: str) -> dict[str, int]:
    """A vocabulary of these tokens, in order."""
    return {token: token_id for token_id, token in enumerate(tokens)}
