"""Which configurations of vLLM must not be served under `AdaptiveScheduler`, and why?

In words that say what was given, what is allowed and where to set it; vLLM then does not start.
"""

from __future__ import annotations

from typing import Any

from paceline.engine.scheduler.drafters import drafter_control, drafting_of

# vLLM's methods of accepting drafts that leave the target's distribution as it is. Not among them:
# "synthetic", which invents acceptance, and "fly" (vLLM 0.33), which accepts what is close enough.
_LOSSLESS = ("standard", "block")


def refuse_what_loses(speculative: Any) -> None:
    """ValueError for a way of accepting drafts that changes what the target would have written.

    Also where nothing is governed: who asks for this scheduler is not served invented tokens.
    """
    method = getattr(speculative, "rejection_sample_method", _LOSSLESS[0])
    if method not in _LOSSLESS:
        raise ValueError(
            f"rejection_sample_method is {method!r}, which is not known to keep the target's "
            f"distribution; AdaptiveScheduler serves only lossless methods: {', '.join(_LOSSLESS)}."
            " Change or remove it in --speculative-config."
        )


def refuse_what_must_not_be_served(vllm_config: Any) -> None:
    """ValueError for what a governed engine cannot serve rightly."""
    speculative = vllm_config.speculative_config
    ranks = vllm_config.parallel_config.data_parallel_size
    if ranks > 1:
        raise ValueError(
            f"data_parallel_size is {ranks}; AdaptiveScheduler works with 1, for ranks that draft "
            "to different lengths wait for each other. Start one server per rank instead."
        )
    if speculative.enable_adaptive_verification:
        raise ValueError(
            "enable_adaptive_verification is on: vLLM then leaves drafts unverified that the "
            "governor would take for rejected. Set it to false in --speculative-config, or leave "
            "out --scheduler-cls."
        )
    control = drafter_control(drafting_of(vllm_config))
    if control.how == "refuse":
        raise ValueError(
            f"speculative method {speculative.method!r} cannot be governed: it {control.why}. "
            "Choose another method, or leave out --scheduler-cls."
        )
    if control.how == "trim" and vllm_config.scheduler_config.async_scheduling:
        raise ValueError(
            f"speculative method {speculative.method!r} {control.why}, and its drafts can be "
            "trimmed under synchronous scheduling only; add --no-async-scheduling"
        )
