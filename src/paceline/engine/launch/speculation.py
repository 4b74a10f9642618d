"""Which drafter proposes the tokens, and what does vLLM need to be told about it?

`--draft auto` looks the target up in a table of families (draft_pairs.json, with reasons); a
target that is not in it gets n-gram prompt lookup, which needs no second model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from paceline.engine.launch.model_folder import ModelUnfit, check_model, check_pair
from paceline.engine.scheduler.drafters import missing_for_drafter

_NGRAM_LOOKUP = {"prompt_lookup_min": 2, "prompt_lookup_max": 4}
"""Chosen by hand: two tokens find a copied identifier early; beyond four, matches are rare."""


@dataclass(frozen=True, slots=True)
class Drafter:
    """The choice made for one target."""

    speculative_config: Mapping[str, Any] | None
    """As vLLM takes it; None serves without speculation."""
    why: str


@dataclass(frozen=True, slots=True)
class DraftPair:
    """One line of the family table, for one suffix."""

    target: str
    draft: str
    same_size: bool
    why: str


def choose_drafter(draft: str, target: str, draft_length_max: int) -> Drafter:
    """The drafter for `target`; `draft` is auto, ngram, suffix, none, a folder or a name.

    Raises `ModelUnfit` when a draft model does not fit the target or a package is missing. Reads
    the folders of local models; names of models elsewhere are left for vLLM to check.
    """
    if draft == "none":
        return Drafter(None, "no speculation: as configured")
    if draft == "auto":
        pair = find_pair(target)
        if pair is not None:
            return _draft_model(pair.draft, draft_length_max, pair.same_size, pair.why)
        return _ngram(draft_length_max, f"n-gram: the family table has no draft for {target}")
    if draft == "ngram":
        return _ngram(draft_length_max, "n-gram: as configured")
    if draft == "suffix":
        missing = missing_for_drafter("suffix")
        if missing is not None:
            raise ModelUnfit(missing)
        return Drafter(
            {"method": "suffix", "num_speculative_tokens": draft_length_max},
            "suffix decoding: as configured",
        )
    try:
        check_model(draft)
    except ModelUnfit as unfit:
        raise ModelUnfit(f"the draft (--draft, engine.draft) does not fit: {unfit}") from None
    has_same_ids, why = True, "as configured"
    if Path(draft).is_dir() and Path(target).is_dir():
        fit = check_pair(Path(target), Path(draft))
        has_same_ids = fit.has_same_ids
        why = f"{why}; {fit.note}" if fit.note else why
    elif (pair := find_pair(target)) is not None and pair.draft == draft:
        has_same_ids = pair.same_size
    return _draft_model(draft, draft_length_max, has_same_ids, why)


def find_pair(target: str) -> DraftPair | None:
    """The table's line for a target, named as on Hugging Face or by a folder of that name."""
    name = target.rstrip("/").rpartition("/")[2].lower()
    for pair in read_pairs():
        if pair.target.rpartition("/")[2].lower() == name:
            return pair
    return None


def read_pairs() -> list[DraftPair]:
    """The whole family table."""
    file = resources.files("paceline.engine.launch") / "draft_pairs.json"
    return [
        DraftPair(
            target=f"{entry['organisation']}/{entry['target'].format(suffix=suffix)}",
            draft=f"{entry['organisation']}/{entry['draft'].format(suffix=suffix)}",
            same_size=entry["same_size"],
            why=entry["why"],
        )
        for entry in json.loads(file.read_text(encoding="utf-8"))["pairs"]
        for suffix in entry["suffixes"]
    ]


def _ngram(draft_length_max: int, why: str) -> Drafter:
    config = {"method": "ngram", "num_speculative_tokens": draft_length_max, **_NGRAM_LOOKUP}
    return Drafter(config, why)


def _draft_model(draft: str, draft_length_max: int, has_same_ids: bool, why: str) -> Drafter:
    config: dict[str, Any] = {
        "method": "draft_model",
        "model": draft,
        "num_speculative_tokens": draft_length_max,
    }
    if has_same_ids:
        # Sampled drafts are accepted three times as often as greedy ones when the request samples.
        config["draft_sample_method"] = "probabilistic"
    else:
        # vLLM then maps token ids between the two, and takes only greedy drafts.
        config["use_heterogeneous_vocab"] = True
    return Drafter(config, f"draft model {draft}: {why}")
