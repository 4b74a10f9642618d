"""The choice of the drafter and its --speculative-config."""

from __future__ import annotations

from pathlib import Path

from paceline.engine.launch.speculation import choose_drafter
from unit.engine.launch.model_files import WORDS, make_model, numbered


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
