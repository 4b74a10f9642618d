"""Folders of EAGLE-3 heads: served as such, or refused before anything is loaded."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from losslessness.tiny_models import write_eagle3_head, write_reduced_eagle3_head
from safetensors.torch import load_file, save_file

from paceline.demo import draft_path, target_path
from paceline.foundation.models.eagle_head import is_eagle3_head
from paceline.foundation.models.model_folder import ModelUnfit
from paceline.runtime.engine.launch.speculation import choose_drafter


@pytest.fixture
def head(tmp_path: Path) -> Path:
    return write_reduced_eagle3_head(tmp_path / "head")


def change(folder: Path, **values: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | values))


def test_a_head_is_served_with_its_own_method(head: Path) -> None:
    drafter = choose_drafter(str(head), str(target_path()), 6)
    assert drafter.speculative_config == {
        "method": "eagle3",
        "model": str(head),
        "num_speculative_tokens": 6,
        "draft_sample_method": "probabilistic",
    }
    assert drafter.why == f"EAGLE-3 head {head}: as configured"


def test_a_draft_model_is_no_head(tmp_path: Path) -> None:
    assert not is_eagle3_head(draft_path())
    assert not is_eagle3_head(tmp_path)
    assert is_eagle3_head(write_eagle3_head(tmp_path / "head"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab_size": 9}, "made for a target with vocab_size 9, and this one has 4096"),
        ({"hidden_size": 512}, "made for a target with hidden_size 512, and this one has 384"),
        ({"eagle_aux_hidden_state_layer_ids": [2, 4, 7]}, "it reads layer 7, and the target has 6"),
    ],
)
def test_a_head_of_another_target_is_refused(
    head: Path, changes: dict[str, Any], message: str
) -> None:
    change(head, **changes)
    with pytest.raises(ModelUnfit, match=message):
        choose_drafter(str(head), str(target_path()), 6)


@pytest.mark.parametrize(
    "name", ["d2t", "lm_head.weight", "fc.weight", "midlayer.mlp.down_proj.weight"]
)
def test_an_incomplete_head_is_refused(head: Path, name: str) -> None:
    weights = load_file(head / "model.safetensors")
    del weights[name]
    save_file(weights, head / "model.safetensors")
    with pytest.raises(ModelUnfit, match=f"no complete EAGLE-3 head: .* lacks {name}"):
        choose_drafter(str(head), str(target_path()), 6)


def test_sizes_that_are_not_stated_or_nested_are_left_to_vllm(head: Path) -> None:
    """As in the heads that speculators writes."""
    config = json.loads((head / "config.json").read_text())
    sizes = {name: config.pop(name) for name in ("vocab_size", "hidden_size")}
    (head / "config.json").write_text(json.dumps(config))
    choose_drafter(str(head), str(target_path()), 6)
    change(head, transformer_layer_config=sizes | {"hidden_size": 8})
    with pytest.raises(ModelUnfit, match="a target with hidden_size 8"):
        choose_drafter(str(head), str(target_path()), 6)


def test_a_broken_file_of_weights_is_refused(head: Path) -> None:
    (head / "model.safetensors").write_bytes(b"\xff" * 40)
    with pytest.raises(ModelUnfit, match="cannot be read"):
        choose_drafter(str(head), str(target_path()), 6)


def test_a_head_is_known_by_its_file_and_not_by_its_name(tmp_path: Path, head: Path) -> None:
    shutil.copytree(head, tmp_path / "eagle-like")
    drafter = choose_drafter(str(tmp_path / "eagle-like"), str(target_path()), 6)
    assert drafter.speculative_config is not None
    assert drafter.speculative_config["method"] == "eagle3"
