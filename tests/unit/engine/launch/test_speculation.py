"""Is the right drafter chosen, and is a wrong one refused in words?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from paceline.engine.launch.model_folder import (
    ModelUnfit,
    PairFit,
    check_model,
    check_pair,
    served_name_of,
    weights_bytes,
)
from paceline.engine.launch.speculation import choose_drafter, find_pair, read_pairs

VOCABULARY = {"a": 0, "b": 1}


def make_model(
    folder: Path, vocab_size: int = 4, vocabulary: dict[str, int] = VOCABULARY, **tokenizer: Any
) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"vocab_size": vocab_size}))
    content = {"model": {"vocab": vocabulary}, "added_tokens": [], **tokenizer}
    (folder / "tokenizer.json").write_text(json.dumps(content))
    (folder / "model.safetensors").write_bytes(b"12345")
    return folder


@pytest.mark.parametrize(
    ("target", "draft"),
    [
        ("Qwen/Qwen2.5-72B-Instruct", "Qwen/Qwen2.5-1.5B-Instruct"),
        ("Qwen/Qwen2.5-72B", "Qwen/Qwen2.5-1.5B"),
        ("/models/Qwen2.5-72B-Instruct/", "Qwen/Qwen2.5-1.5B-Instruct"),
        ("meta-llama/llama-3.3-70b-instruct", "meta-llama/Llama-3.2-1B-Instruct"),
        ("Qwen/Qwen3-32B", "Qwen/Qwen3-1.7B"),
    ],
)
def test_the_family_table_names_the_draft(target: str, draft: str) -> None:
    pair = find_pair(target)
    assert pair is not None
    assert pair.draft == draft


def test_every_pair_has_a_reason_and_stands_once() -> None:
    pairs = read_pairs()
    assert all(pair.why for pair in pairs)
    assert len({pair.target for pair in pairs}) == len(pairs)


def test_auto_takes_the_family_draft_and_maps_vocabularies_whose_padding_differs() -> None:
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


def test_same_vocabulary_and_size_drafts_by_sampling(tmp_path: Path) -> None:
    target, draft = make_model(tmp_path / "t"), make_model(tmp_path / "d")
    config = choose_drafter(str(draft), str(target), 8).speculative_config
    assert config is not None
    assert config["draft_sample_method"] == "probabilistic"


def test_added_tokens_belong_to_the_vocabulary(tmp_path: Path) -> None:
    target = make_model(tmp_path / "t", added_tokens=[{"content": "<eos>", "id": 2}])
    draft = make_model(tmp_path / "d", vocabulary={**VOCABULARY, "<eos>": 2})
    assert check_pair(target, draft) == PairFit(has_same_ids=True)


def test_padding_may_differ(tmp_path: Path) -> None:
    fit = check_pair(make_model(tmp_path / "t", 4), make_model(tmp_path / "d", 8))
    assert fit == PairFit(has_same_ids=False)


def numbered(*tokens: str) -> dict[str, int]:
    return {token: token_id for token_id, token in enumerate(tokens)}


WORDS = [f"\u0120word{i}" for i in range(150)]  # as GPT-2's tokenizer writes " word0"


def test_another_tokenizer_is_mapped_and_said(tmp_path: Path) -> None:
    """The draft has 120 of the target's 150 words, in another order and spelt as in SentencePiece,
    and 50 of its own."""
    others = [f"other{i}" for i in range(50)]
    words = [word.replace("\u0120", "\u2581") for word in WORDS[:120]]
    target = make_model(tmp_path / "t", 150, numbered(*WORDS))
    draft = make_model(tmp_path / "d", 170, numbered(*others, *reversed(words)))
    drafter = choose_drafter(str(draft), str(target), 8)
    assert drafter.speculative_config is not None
    assert drafter.speculative_config["use_heterogeneous_vocab"] is True
    assert "draft_sample_method" not in drafter.speculative_config
    assert "120 of 150 tokens of the target's tokenizer and drafts only those" in drafter.why


def test_ids_count_and_not_only_tokens(tmp_path: Path) -> None:
    """The same tokens in another order have to be mapped as well."""
    target = make_model(tmp_path / "t", 150, numbered(*WORDS))
    draft = make_model(tmp_path / "d", 150, numbered(*reversed(WORDS)))
    assert not check_pair(target, draft).has_same_ids


def test_a_draft_that_shares_hardly_a_token_is_refused(tmp_path: Path) -> None:
    """99 are one too few."""
    target = make_model(tmp_path / "t", 150, numbered(*WORDS))
    draft = make_model(tmp_path / "d", 150, numbered(*WORDS[:99]))
    with pytest.raises(ModelUnfit, match=r"99 of 150 tokens.*at least 100.*--draft ngram"):
        check_pair(target, draft)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("/no/such/folder", "does not exist; give a model's folder"),
        ("what is this", "Without a model the bundled pair is served"),
        ("{tmp}/empty", "config.json cannot be read"),
        ("{tmp}/weightless", "holds no weights"),
        ("{tmp}/broken", "config.json is not JSON"),
        ("{tmp}/file", "is a file; give the folder"),
    ],
)
def test_what_is_no_model_is_refused_before_anything_starts(
    tmp_path: Path, name: str, said: str
) -> None:
    (tmp_path / "empty").mkdir()
    (make_model(tmp_path / "weightless") / "model.safetensors").unlink()
    (make_model(tmp_path / "broken") / "config.json").write_text("{")
    (tmp_path / "file").touch()
    with pytest.raises(ModelUnfit, match=said):
        check_model(name.format(tmp=tmp_path))


def test_hugging_face_names_are_left_to_vllm() -> None:
    check_model("Qwen/Qwen2.5-7B-Instruct")
    assert weights_bytes("Qwen/Qwen2.5-7B-Instruct") is None


def test_clients_name_a_folder_by_its_last_part(tmp_path: Path) -> None:
    model = make_model(tmp_path / "my-model")
    assert served_name_of(f"{model}/") == "my-model"
    assert served_name_of("Qwen/Qwen2.5-7B") == "Qwen/Qwen2.5-7B"
    assert weights_bytes(str(model)) == 5
