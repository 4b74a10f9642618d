"""Refuse configurations of vLLM that must not be served under `AdaptiveScheduler`.

Each refusal is a ValueError that says what was given, what is allowed and what to do instead. vLLM
then does not start.
"""

from __future__ import annotations

from typing import Any

from paceline.runtime.engine.compat.drafters import (
    drafter_control,
    drafting_of,
    refused_in_pipeline,
)

_LOSSLESS = ("standard", "block")
"""vLLM's verification methods that keep the target's distribution. Not among them are "synthetic",
which ignores the models' probabilities, and "fly" (vLLM 0.33), which accepts near misses."""


def refuse_lossy_verification(speculative: Any) -> None:
    """Raise ValueError for a verification method that changes the target's output distribution.

    Applies also where nothing is governed: a user of this scheduler relies on lossless output.
    """
    method = getattr(speculative, "rejection_sample_method", _LOSSLESS[0])
    if method not in _LOSSLESS:
        raise ValueError(
            f"rejection_sample_method is {method!r}, which may change the target's output "
            f"distribution; AdaptiveScheduler allows only {' and '.join(_LOSSLESS)}. Change or "
            "remove it in --speculative-config."
        )


def refuse_shared_drafts(speculative: Any) -> None:
    """Raise ValueError for a drafter that drafts from the answers of other requests.

    For servers of several tenants. The number of tokens in a chunk shows which drafts were
    accepted, and so which texts vLLM's suffix decoding has seen in the answers of others.
    """
    num_cached = getattr(speculative, "suffix_decoding_max_cached_requests", 0)
    if speculative.method == "suffix" and num_cached:
        raise ValueError(
            f"suffix_decoding_max_cached_requests is {num_cached}: suffix decoding would draft "
            "from the answers of all tenants, and clients could find out what others were "
            "answered. It must be 0 where API keys are set (keys.file); set it in "
            "--speculative-config, or set engine.draft to suffix, which does so."
        )


def refuse_unreported_trims(why: str) -> None:
    """Raise ValueError where vLLM leaves drafts out and its workers cannot report which, for `why`.

    Empty: they can. The governor would take these drafts for rejected.
    """
    if why:
        raise ValueError(
            "enable_adaptive_verification is on, and the workers cannot report which drafts it "
            f"leaves out: {why}. Set it to false in --speculative-config, or remove "
            "--scheduler-cls."
        )


def refuse_ungovernable(vllm_config: Any) -> None:
    """Raise ValueError for a configuration in which the draft length cannot be controlled."""
    speculative = vllm_config.speculative_config
    if vllm_config.use_v2_model_runner and vllm_config.device_config.device_type == "cpu":
        raise ValueError(
            "Model Runner V2 runs on a CPU; AdaptiveScheduler allows only V1 there, because it "
            "corrects vLLM's CPU sampling in V1. Set VLLM_USE_V2_MODEL_RUNNER=0, or remove "
            "--scheduler-cls."
        )
    ranks = vllm_config.parallel_config.data_parallel_size
    if ranks > 1:
        raise ValueError(
            f"data_parallel_size is {ranks}; AdaptiveScheduler allows only 1, because ranks with "
            "different draft lengths wait for each other. Start one server per rank instead."
        )
    stages = vllm_config.parallel_config.pipeline_parallel_size
    drafting = drafting_of(vllm_config)
    why_not_pipelined = refused_in_pipeline(
        drafting.method, use_v2_model_runner=drafting.use_v2_model_runner
    )
    if stages > 1 and why_not_pipelined is not None:
        raise ValueError(
            f"pipeline_parallel_size is {stages}, and speculative method {drafting.method!r} does "
            f"not run in a pipeline: {why_not_pipelined}. Remove --speculative-config, or use "
            "--tensor-parallel-size instead."
        )
    control = drafter_control(drafting)
    if control.mode == "refused":
        raise ValueError(
            f"speculative method {speculative.method!r} cannot be governed: it {control.why}. "
            "Choose another method in --speculative-config, or remove --scheduler-cls."
        )
    if control.mode == "trimmed" and vllm_config.scheduler_config.async_scheduling:
        raise ValueError(
            f"speculative method {speculative.method!r} {control.why}; its drafts can be trimmed "
            "only under synchronous scheduling. Add --no-async-scheduling."
        )
