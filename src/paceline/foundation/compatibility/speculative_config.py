"""The value of vLLM's --speculative-config for each drafter, as every command writes it.

`paceline serve` starts its engines with it; `paceline plan` and `paceline deploy` write it down. So
advice about drafters on GPUs is followed in one place: which method looks n-grams up, which drafts
are sampled, and which draft lengths get CUDA graphs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from paceline.foundation.compatibility.length_table import (
    lengths_to_name,
    render_length_table,
    takes_length_table,
)

_NGRAM_LOOKUP = {"prompt_lookup_min": 2, "prompt_lookup_max": 4}
"""Chosen empirically: two tokens find a copied identifier early; beyond four, matches are rare."""


def ngram_config(draft_length_max: int, *, on_gpu: bool) -> dict[str, Any]:
    """N-gram lookup; `ngram_gpu` leaves asynchronous scheduling on, and needs Model Runner V2."""
    method = "ngram_gpu" if on_gpu else "ngram"
    return {"method": method, "num_speculative_tokens": draft_length_max, **_NGRAM_LOOKUP}


def suffix_config(draft_length_max: int) -> dict[str, Any]:
    """Suffix decoding."""
    return {"method": "suffix", "num_speculative_tokens": draft_length_max}


def eagle3_config(head: str, draft_length_max: int) -> dict[str, Any]:
    """An EAGLE-3 head."""
    return {
        "method": "eagle3",
        "model": head,
        "num_speculative_tokens": draft_length_max,
        "draft_sample_method": "probabilistic",
    }


def draft_model_config(draft: str, draft_length_max: int, *, has_same_ids: bool) -> dict[str, Any]:
    """A draft model; `has_same_ids`: both models embed the same number of tokens."""
    config: dict[str, Any] = {
        "method": "draft_model",
        "model": draft,
        "num_speculative_tokens": draft_length_max,
    }
    if has_same_ids:
        # Sampled requests accept sampled drafts three times as often as greedy ones.
        config["draft_sample_method"] = "probabilistic"
    else:
        # vLLM maps token ids between the two and then supports only greedy drafts.
        config["use_heterogeneous_vocab"] = True
    return config


def with_named_lengths(
    config: Mapping[str, Any],
    *,
    configured: Collection[int] = (),
    max_num_seqs: int | None = None,
) -> dict[str, Any]:
    """The configuration with the draft lengths named that Model Runner V2 captures graphs for.

    `configured` are lengths that the settings name, `max_num_seqs` is vLLM's limit if it is set.
    Unchanged where vLLM runs Model Runner V1: that one gives up its full graphs under such a table.
    """
    if not takes_length_table(config):
        return dict(config)
    lengths = lengths_to_name(config["num_speculative_tokens"], configured)
    table = render_length_table(lengths, max_num_seqs)
    if table is None:
        return dict(config)
    return {**config, "num_speculative_tokens_per_batch_size": table}
