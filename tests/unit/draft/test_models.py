"""Models that do not fit are refused before anything is computed."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from paceline.foundation.models.models import (
    check_same_tokens,
    choose_device,
    find_folder,
    load_config,
    load_model,
    load_tokenizer,
    max_positions,
    num_parameters,
    stop_token_ids,
)
from paceline.foundation.models.values import DraftError
from unit.draft.conftest import TinyPair
from unit.draft.tiny_models import END_ID, write_tokenizer


def test_another_vocabulary_is_refused(pair: TinyPair, tmp_path: Path) -> None:
    """The same words with two ids exchanged."""
    write_tokenizer(tmp_path, ("w1", "w0", *(f"w{number}" for number in range(2, 96))))
    tokenizers = load_tokenizer(pair.target), load_tokenizer(tmp_path)
    with pytest.raises(DraftError, match="100 of 100 tokens, but not all ids"):
        check_same_tokens(pair.target, tmp_path, tokenizers)
    check_same_tokens(pair.target, pair.draft, (tokenizers[0], load_tokenizer(pair.draft)))


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DraftError, match=r"no config\.json"):
        find_folder(str(tmp_path))


def test_a_configuration_that_transformers_does_not_know_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "perpetuum"}')
    with pytest.raises(DraftError, match="not a configuration that transformers knows"):
        load_config(tmp_path)
    with pytest.raises(DraftError, match="cannot load"):
        load_model(tmp_path, torch.float32, torch.device("cpu"))


def test_cuda_without_a_gpu_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DraftError, match="torch finds no GPU"):
        choose_device("cuda")
    assert choose_device("auto").type == choose_device("cpu").type == "cpu"


def test_facts_of_a_model_folder(pair: TinyPair) -> None:
    """100 tokens of width 32, twice; per layer 32 * (32 + 16 + 16 + 32) for attention, 3 * 32 * 48
    for the feed-forward part and two norms; one norm at the end."""
    config = load_config(pair.draft)
    assert num_parameters(config) == 2 * 3200 + 3072 + 4608 + 64 + 32
    assert max_positions(config, config) == 96
    assert stop_token_ids(pair.draft, load_tokenizer(pair.draft)) == {END_ID}
