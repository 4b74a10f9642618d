"""The choice of the drafter and its --speculative-config."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from paceline.runtime.engine.launch.speculation import (
    choose_drafter,
    name_lengths,
    uses_model_runner_v2,
)
from unit.engine.launch.model_files import WORDS, make_model, numbered
from unit.engine.launch.test_layout import TWO_CORES


def test_auto_uses_the_table_and_maps_vocabularies_whose_padding_differs() -> None:
    drafter = choose_drafter("auto", "Qwen/Qwen2.5-72B-Instruct", 6)
    assert drafter.speculative_config == {
        "method": "draft_model",
        "model": "Qwen/Qwen2.5-1.5B-Instruct",
        "num_speculative_tokens": 6,
        "use_heterogeneous_vocab": True,
    }


def test_auto_falls_back_to_ngram_for_unknown_targets() -> None:
    drafter = choose_drafter("auto", "someone/else", 6)
    assert drafter.speculative_config is not None
    assert drafter.speculative_config["method"] == "ngram"
    assert drafter.speculative_config["num_speculative_tokens"] == 6


def test_none_serves_without_speculation() -> None:
    assert choose_drafter("none", "someone/else", 6).speculative_config is None


def test_drafts_are_sampled_with_equal_vocabulary_and_size(tmp_path: Path) -> None:
    target, draft = make_model(tmp_path / "t"), make_model(tmp_path / "d")
    config = choose_drafter(str(draft), str(target), 8).speculative_config
    assert config is not None
    assert config["draft_sample_method"] == "probabilistic"


def test_another_tokenizer_is_mapped_and_reported(tmp_path: Path) -> None:
    """The draft has 120 of the target's 150 words, reordered, in SentencePiece's notation, and 50
    of its own."""
    others = [f"other{i}" for i in range(50)]
    words = [word.replace("\u0120", "\u2581") for word in WORDS[:120]]
    target = make_model(tmp_path / "t", 150, numbered(*WORDS))
    draft = make_model(tmp_path / "d", 170, numbered(*others, *reversed(words)))
    drafter = choose_drafter(str(draft), str(target), 8)
    assert drafter.speculative_config is not None
    assert drafter.speculative_config["use_heterogeneous_vocab"] is True
    assert "draft_sample_method" not in drafter.speculative_config
    assert "120 of 150 tokens of the target's tokenizer and drafts only those" in drafter.why


def test_model_runner_v2_runs_on_gpus_unless_switched_off() -> None:
    gpu = replace(TWO_CORES, device="gpu")
    assert uses_model_runner_v2(gpu, {})
    assert uses_model_runner_v2(gpu, {"VLLM_USE_V2_MODEL_RUNNER": "1"})
    assert not uses_model_runner_v2(gpu, {"VLLM_USE_V2_MODEL_RUNNER": "0"})
    assert not uses_model_runner_v2(TWO_CORES, {})


@pytest.mark.parametrize("draft", ["auto", "ngram"])
def test_ngram_keeps_asynchronous_scheduling_under_model_runner_v2(draft: str) -> None:
    """vLLM switches asynchronous scheduling off for `ngram`, and searches with the same class."""
    drafter = choose_drafter(draft, "someone/else", 6, uses_v2_runner=True)
    assert drafter.speculative_config == {
        "method": "ngram_gpu",
        "num_speculative_tokens": 6,
        "prompt_lookup_min": 2,
        "prompt_lookup_max": 4,
    }


def test_lengths_are_named_for_drafters_of_model_runner_v2() -> None:
    ngram = choose_drafter("ngram", "someone/else", 8, uses_v2_runner=True)
    named = name_lengths(ngram, configured={5})
    assert named.speculative_config is not None
    assert named.speculative_config["num_speculative_tokens_per_batch_size"] == [
        [1, 1, 7],
        [2, 2, 5],
        [3, 3, 3],
        [4, 4, 1],
        [5, 5, 0],
    ]
    assert named.speculative_config["num_speculative_tokens"] == 8
    assert named.why.endswith("; CUDA graphs for draft lengths 0, 1, 3, 5, 7")
    assert name_lengths(ngram, max_num_seqs=1) == ngram


def test_no_lengths_are_named_where_vllm_falls_back_to_model_runner_v1() -> None:
    """Under V1 such a table costs the full graphs of the maximum too."""
    for draft, target in (("none", "a/b"), ("auto", "Qwen/Qwen2.5-72B-Instruct")):
        drafter = choose_drafter(draft, target, 8, uses_v2_runner=True)
        assert name_lengths(drafter) == drafter
