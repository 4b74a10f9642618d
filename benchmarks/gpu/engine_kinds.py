"""The engines of experiment 1, and the arms that each of them runs.

    none                 no speculation
    governed             K=0, K=1, …     a length, held
                         goodput         the governor
                         sglang-ema      SGLang's rule, with its defaults
    adaptive             adaptive        stock vLLM, which drafts 7 tokens and leaves some of them
                                         unverified (`enable_adaptive_verification`)
    governed-adaptive    goodput+adaptive

Each engine is a process of its own, so arms of different engines do not take turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paceline.foundation.compatibility.length_table import lengths_to_name, render_length_table

MAX_DRAFT_LENGTH = 7
"""That of vLLM's own measurements of adaptive verification (vLLM #52228, #52362)."""
MAX_NUM_SEQS = 256
GOVERNED_POLICIES = ("goodput", "sglang-ema")


@dataclass(frozen=True, slots=True)
class EngineKind:
    """How an engine is started."""

    name: str
    drafts: bool = True
    is_governed: bool = True
    """Whether it runs `AdaptiveScheduler`; without speculation that governs nothing."""
    trims: bool = False
    """Whether vLLM's adaptive verification is on."""

    def arms(self, lengths: Sequence[int]) -> list[str]:
        """The arms; `lengths` are the draft lengths that the engine runs at full speed."""
        if not self.drafts:
            return ["none"]
        if self.trims:
            return ["goodput+adaptive" if self.is_governed else "adaptive"]
        return [*(f"K={length}" for length in lengths), *GOVERNED_POLICIES]

    def vllm_arguments(self, target: Path, draft: Path | None, *, is_async: bool) -> dict[str, Any]:
        """The arguments of `vllm.LLM`; `draft` is None where the target drafts by its own layer."""
        arguments: dict[str, Any] = {
            "model": str(target),
            "load_format": "dummy",
            "skip_tokenizer_init": True,
            "max_model_len": 16_384,
            "max_num_seqs": MAX_NUM_SEQS,
            "enable_prefix_caching": False,
            "async_scheduling": is_async,
        }
        if self.is_governed:
            arguments["scheduler_cls"] = "paceline.engine.AdaptiveScheduler"
        if not self.drafts:
            return arguments
        drafter: dict[str, Any] = {"method": "mtp"}
        if draft is not None:
            drafter = {"method": "draft_model", "model": str(draft)}
        speculative: dict[str, Any] = {
            **drafter,
            "num_speculative_tokens": MAX_DRAFT_LENGTH,
            "rejection_sample_method": "synthetic",
            "synthetic_acceptance_rates": [0.5**n for n in range(1, MAX_DRAFT_LENGTH + 1)],
        }
        if self.trims:
            speculative["enable_adaptive_verification"] = True
        if self.is_governed:
            named = lengths_to_name(MAX_DRAFT_LENGTH)
            table = render_length_table(named, MAX_NUM_SEQS)
            speculative["num_speculative_tokens_per_batch_size"] = table
        return {**arguments, "speculative_config": speculative}


ENGINE_KINDS = {
    kind.name: kind
    for kind in (
        EngineKind("none", drafts=False),
        EngineKind("governed"),
        EngineKind("adaptive", is_governed=False, trims=True),
        EngineKind("governed-adaptive", trims=True),
    )
}
