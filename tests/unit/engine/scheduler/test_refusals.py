"""Which configurations of vLLM are refused, and what the refusal says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from paceline.runtime.engine.scheduler.refusals import (
    refuse_lossy_verification,
    refuse_shared_drafts,
    refuse_ungovernable,
    refuse_unreported_trims,
)


def refused(**changes: Any) -> str:
    given = {
        "method": "draft_model",
        "rejection_sample_method": "standard",
        "ranks": 1,
        "stages": 1,
        "is_async": False,
        "is_parallel": False,
        "use_v2": False,
        "device": "cuda",
        **changes,
    }
    config = SimpleNamespace(
        speculative_config=SimpleNamespace(
            method=given["method"],
            rejection_sample_method=given["rejection_sample_method"],
            parallel_drafting=given["is_parallel"],
            use_multi_module_mtp=lambda: False,
        ),
        parallel_config=SimpleNamespace(
            data_parallel_size=given["ranks"], pipeline_parallel_size=given["stages"]
        ),
        scheduler_config=SimpleNamespace(async_scheduling=given["is_async"]),
        use_v2_model_runner=given["use_v2"],
        device_config=SimpleNamespace(device_type=given["device"]),
    )
    try:
        refuse_lossy_verification(config.speculative_config)
        refuse_ungovernable(config)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({}, ""),
        ({"method": "ngram"}, ""),
        ({"device": "cpu"}, ""),
        ({"device": "cpu", "use_v2": True}, "Set VLLM_USE_V2_MODEL_RUNNER=0"),
        ({"method": "suffix"}, ""),
        ({"ranks": 2}, "data_parallel_size is 2; AdaptiveScheduler allows only 1"),
        ({"stages": 2}, "pipeline_parallel_size is 2, and speculative method 'draft_model'"),
        ({"stages": 2, "method": "ngram"}, "only the last stage has a drafter"),
        ({"stages": 2, "use_v2": True}, "only the last stage's share of its layers"),
        ({"stages": 2, "use_v2": True, "method": "eagle3"}, ""),
        ({"rejection_sample_method": "block"}, ""),
        ({"rejection_sample_method": "synthetic"}, "allows only standard and block"),
        ({"rejection_sample_method": "fly"}, "is 'fly', which may change"),
        ({"method": "medusa"}, ""),
        ({"method": "extract_hidden_states"}, "'extract_hidden_states' cannot be governed"),
        ({"method": "suffix", "is_async": True}, "Add --no-async-scheduling"),
        ({"method": "medusa", "is_async": True}, "Add --no-async-scheduling"),
        ({"is_parallel": True}, ""),
        ({"is_parallel": True, "is_async": True}, "Add --no-async-scheduling"),
        ({"use_v2": True, "is_async": True}, ""),
        ({"use_v2": True, "method": "medusa"}, "it runs under Model Runner V1 only"),
        ({"use_v2": True, "method": "dspark"}, ""),
    ],
    ids=lambda value: str(value),
)
def test_a_refusal_says_what_was_given_and_what_is_allowed(
    changes: dict[str, Any], complaint: str
) -> None:
    """An empty complaint: the configuration is served."""
    assert (complaint in refused(**changes)) if complaint else not refused(**changes)


def test_drafts_that_are_left_out_must_be_reported() -> None:
    refuse_unreported_trims("")
    with pytest.raises(ValueError, match=r"enable_adaptive_verification is on.*: planted\. Set it"):
        refuse_unreported_trims("planted")


def test_a_vllm_without_a_choice_of_verification_is_served() -> None:
    """Before 0.26 there was only the standard method, and no such setting."""
    refuse_lossy_verification(SimpleNamespace())


@pytest.mark.parametrize(
    ("method", "num_cached", "is_refused"),
    [("suffix", 10_000, True), ("suffix", 0, False), ("ngram", 10_000, False)],
)
def test_drafts_from_the_answers_of_others_are_refused(
    method: str, num_cached: int, is_refused: bool
) -> None:
    """vLLM sets a size of the shared tree for every method; only `suffix` uses it."""
    speculative = SimpleNamespace(method=method, suffix_decoding_max_cached_requests=num_cached)
    if not is_refused:
        refuse_shared_drafts(speculative)
        return
    with pytest.raises(ValueError, match=r"is 10000.*must be 0 where API keys are set"):
        refuse_shared_drafts(speculative)


def test_a_vllm_without_a_shared_tree_of_drafts_is_served() -> None:
    """No setting of its size: there is none."""
    refuse_shared_drafts(SimpleNamespace(method="suffix"))
