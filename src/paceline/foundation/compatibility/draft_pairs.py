"""The table of known targets and the draft model that fits each, with reasons.

The data is `draft_pairs.json`: one entry per family member, expanded by suffixes such as
"-Instruct".
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources


@dataclass(frozen=True, slots=True)
class DraftPair:
    """One target and its draft, named as on Hugging Face."""

    target: str
    draft: str
    has_same_vocab_size: bool
    """Both embed the same number of tokens; otherwise vLLM maps between the vocabularies."""
    why: str


def find_draft_pair(target: str) -> DraftPair | None:
    """Return the pair of `target`, a Hugging Face name or a folder with such a name; else None."""
    name = _model_name(target)
    return next((pair for pair in draft_pairs() if _model_name(pair.target) == name), None)


@cache
def draft_pairs() -> tuple[DraftPair, ...]:
    """Return the whole table, in the order of the file."""
    file = resources.files("paceline.foundation.compatibility") / "draft_pairs.json"
    return tuple(
        DraftPair(
            target=f"{entry['organisation']}/{entry['target'].format(suffix=suffix)}",
            draft=f"{entry['organisation']}/{entry['draft'].format(suffix=suffix)}",
            has_same_vocab_size=entry["same_vocab_size"],
            why=entry["why"],
        )
        for entry in json.loads(file.read_text(encoding="utf-8"))["pairs"]
        for suffix in entry["suffixes"]
    )


def _model_name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2].lower()
