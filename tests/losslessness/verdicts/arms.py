"""The drafters whose verdicts are tested, and the engine that every one of them runs in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from losslessness.engine_host import EngineHost
from losslessness.prompts import stdlib_prompts
from losslessness.telling_prompts import bundled_pair

CEILING = 4
NUM_PROMPTS = 20
_PROMPT_TOKENS = 24
"""Short prompts: the time goes into verdicts. The outputs make the context longer."""

ARMS: Mapping[str, Mapping[str, Any]] = {
    "greedy drafts": {"draft_sample_method": "greedy"},
    "sampled drafts": {"draft_sample_method": "probabilistic"},
    "n-gram": {"method": "ngram", "prompt_lookup_min": 1, "prompt_lookup_max": 3},
}
"""Speculative settings. The first two are the two draft methods of a draft model."""


def start_arm(name: str, *, seed: int = 0) -> EngineHost:
    """An engine whose draft length changes in every step, with stretches at 0, being recorded."""
    settings = ARMS[name]
    llm = bundled_pair(num_speculative_tokens=CEILING)
    if settings.get("method") == "ngram":
        llm["speculative_config"] = {**settings, "num_speculative_tokens": CEILING}
    else:
        llm["speculative_config"] |= settings
    engine = EngineHost(
        {**llm, "seed": seed}, policy={"policy": "fixed"}, fault="losslessness.faults:wander"
    )
    engine.call("losslessness.verdicts.recorder:install")
    return engine


def short_prompts(engine: EngineHost, num_prompts: int = NUM_PROMPTS) -> list[list[int]]:
    """The ends of pieces of the standard library."""
    return [ids[-_PROMPT_TOKENS:] for ids in engine.tokenize(stdlib_prompts(num_prompts))]
