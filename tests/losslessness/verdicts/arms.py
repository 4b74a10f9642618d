"""The drafters whose verdicts are tested, and the engine that every one of them runs in."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from losslessness.engine_host import EngineHost
from losslessness.prompts import stdlib_prompts
from losslessness.telling_prompts import bundled_pair

CEILING = 4
NUM_PROMPTS = 20
_MAX_NUM_SEQS = 48
"""Fewer than a round has requests, so that requests join while others run."""
_PROMPT_TOKENS = 24
"""Short prompts: the time goes into verdicts. The outputs make the context longer."""


@dataclass(frozen=True, slots=True)
class VerdictArm:
    """A drafter under test."""

    settings: Mapping[str, Any]
    """Speculative settings of vLLM."""
    num_verdicts: int
    """They find a bias of 5 % with probability 0.95; chosen from recorded ratios, and asserted by
    the test with the ratios of each run."""
    fault: str = "losslessness.faults:wander"
    """How the policy changes what is drafted."""

    def num_verdicts_for(self, bias: float) -> int:
        """As many as find this bias with the same probability.

        The number falls with the square of the bias, and less for large ones: hence the factor.
        """
        if bias <= 0.05:
            return self.num_verdicts
        return math.ceil(1.8 * self.num_verdicts * (0.05 / bias) ** 2)


ARMS: Mapping[str, VerdictArm] = {
    "greedy drafts": VerdictArm({"draft_sample_method": "greedy"}, 4_000),
    "sampled drafts": VerdictArm({"draft_sample_method": "probabilistic"}, 7_000),
    "ended early": VerdictArm(
        {"draft_sample_method": "probabilistic"}, 7_000, "losslessness.early_stops:vary_rules"
    ),
    "n-gram": VerdictArm(
        {"method": "ngram", "prompt_lookup_min": 1, "prompt_lookup_max": 3}, 4_000
    ),
}
"""The first two are the two draft methods of a draft model; the third also ends drafts early and
verifies a part of them."""


def start_arm(name: str, *, seed: int = 0) -> EngineHost:
    """An engine whose draft length changes in every step, with stretches at 0, being recorded."""
    settings = ARMS[name].settings
    llm = {**bundled_pair(num_speculative_tokens=CEILING), "max_num_seqs": _MAX_NUM_SEQS}
    if settings.get("method") == "ngram":
        llm["speculative_config"] = {**settings, "num_speculative_tokens": CEILING}
    else:
        llm["speculative_config"] |= settings
    engine = EngineHost({**llm, "seed": seed}, policy={"policy": "fixed"}, fault=ARMS[name].fault)
    engine.call("losslessness.verdicts.recorder:install")
    return engine


def short_prompts(engine: EngineHost, num_prompts: int = NUM_PROMPTS) -> list[list[int]]:
    """The ends of pieces of the standard library."""
    return [ids[-_PROMPT_TOKENS:] for ids in engine.tokenize(stdlib_prompts(num_prompts))]
