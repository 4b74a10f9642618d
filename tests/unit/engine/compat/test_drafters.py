"""How the draft length of each drafter can be controlled."""

from __future__ import annotations

import pytest

from paceline.runtime.engine.compat.drafters import (
    UNDER_V1,
    UNDER_V2,
    Drafting,
    drafter_control,
    missing_for_drafter,
)


@pytest.mark.parametrize(
    ("method", "under_v1", "under_v2"),
    [
        ("draft_model", "follows", "patched"),
        ("ngram", "follows", "patched"),
        ("ngram_gpu", "refused", "patched"),
        ("eagle", "follows", "follows"),
        ("eagle3", "follows", "follows"),
        ("mtp", "follows", "follows"),
        ("dflash", "follows", "masked"),
        ("dspark", "refused", "masked"),
        ("suffix", "trimmed", "refused"),
        ("medusa", "trimmed", "refused"),
        ("custom_class", "trimmed", "refused"),
        ("mlp_speculator", "refused", "refused"),
        ("extract_hidden_states", "refused", "refused"),
        ("crystal_ball", "refused", "refused"),
    ],
)
def test_every_drafter_is_controlled_or_refused(method: str, under_v1: str, under_v2: str) -> None:
    """Under both model runners, always with a reason."""
    for use_v2, mode in ((False, under_v1), (True, under_v2)):
        control = drafter_control(Drafting(method, use_v2_model_runner=use_v2))
        assert control.mode == mode
        assert control.why
        assert mode != "masked" or "saves verification, not drafting" in control.why


def test_parallel_drafts_are_trimmed_under_v1() -> None:
    """Given a shorter length, vLLM would return rows of other requests, or fail."""
    for method in ("draft_model", "eagle3"):
        assert drafter_control(Drafting(method, is_parallel=True)).mode == "trimmed"
        parallel = Drafting(method, use_v2_model_runner=True, is_parallel=True)
        assert drafter_control(parallel).mode == "refused"


def test_dflash_follows_though_vllm_marks_it_parallel() -> None:
    """Its own proposer runs one pass of the requested width."""
    assert drafter_control(Drafting("dflash", is_parallel=True)).mode == "follows"
    dspark = Drafting("dspark", use_v2_model_runner=True, is_parallel=True)
    assert drafter_control(dspark).mode == "masked"


def test_an_mtp_with_several_modules_is_refused_under_v2_only() -> None:
    """With masked drafts, the KV caches of its later modules would keep unverified tokens."""
    assert drafter_control(Drafting("mtp", has_many_mtp_modules=True)).mode == "follows"
    many = drafter_control(Drafting("mtp", use_v2_model_runner=True, has_many_mtp_modules=True))
    assert many.mode == "refused"
    assert "num_speculative_tokens to 1" in many.why


@pytest.mark.parametrize("method", ["draft_model", "eagle3", "mtp"])
def test_parallel_drafts_are_trimmed_or_refused_with_advice(method: str) -> None:
    assert drafter_control(Drafting(method, is_parallel=True)).mode == "trimmed"
    under_v2 = drafter_control(Drafting(method, use_v2_model_runner=True, is_parallel=True))
    assert under_v2.mode == "refused"
    assert "parallel_drafting" in under_v2.why
    assert "VLLM_USE_V2_MODEL_RUNNER" in under_v2.why


def test_the_refusal_of_an_unknown_method_lists_the_known_ones() -> None:
    control = drafter_control(Drafting("crystal_ball"))
    assert control.mode == "refused"
    assert "eagle3, medusa, mtp" in control.why


def test_both_tables_have_the_same_methods() -> None:
    assert UNDER_V1.keys() == UNDER_V2.keys()


def test_a_missing_package_is_reported_with_its_install_command() -> None:
    """Suffix decoding needs arctic-inference; the others need nothing."""
    missing = missing_for_drafter("suffix")
    assert missing is None or "pip install arctic-inference" in missing
    others = UNDER_V1.keys() - {"suffix"}
    assert [missing_for_drafter(method) for method in others] == [None] * len(others)
