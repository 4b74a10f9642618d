"""Blocks and tokens of the KV cache against sums that follow vLLM's rules."""

from __future__ import annotations

import pytest

from paceline.foundation.capacity.model.hf_config import read_model_config
from paceline.foundation.capacity.model.kv_layout import (
    KvLayers,
    kv_bytes_per_token,
    kv_layers,
    kv_layout,
)
from paceline.foundation.planning.sources.catalogue import load_catalogue
from unit.capacity.model.configs import DEEPSEEK, LLAMA


def test_keys_and_values_of_every_kv_head_in_every_layer() -> None:
    layers = kv_layers(read_model_config(LLAMA), "bfloat16")
    assert kv_bytes_per_token(layers) == 2 * 2 * 2 * 8 * 2


def test_fp8_halves_the_cache() -> None:
    assert kv_bytes_per_token(kv_layers(read_model_config(LLAMA), "fp8")) == 2 * 2 * 2 * 8


def test_kv_heads_beyond_their_number_are_replicated() -> None:
    shape = read_model_config(LLAMA)
    assert kv_bytes_per_token(kv_layers(shape, "bfloat16", 2)) == 2 * 2 * 8 * 2
    assert kv_bytes_per_token(kv_layers(shape, "bfloat16", 8)) == 2 * 2 * 8 * 2


def test_a_latent_vector_is_on_every_gpu() -> None:
    shape = read_model_config(DEEPSEEK)
    assert kv_bytes_per_token(kv_layers(shape, "bfloat16", 4)) == 3 * (16 + 4) * 2


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("meta-llama/Meta-Llama-3-70B-Instruct", 327_680),
        ("Qwen/Qwen2.5-7B-Instruct", 57_344),
        ("deepseek-ai/DeepSeek-V3", 70_272),
        ("Qwen/Qwen3-30B-A3B", 98_304),
    ],
)
def test_bytes_per_token_of_well_known_models(name: str, expected: int) -> None:
    config = load_catalogue().model_config(name)
    assert config is not None
    assert kv_bytes_per_token(kv_layers(read_model_config(config), "bfloat16")) == expected


def test_layers_that_see_everything_share_one_group() -> None:
    layout = kv_layout([KvLayers(4, 100, None)], 16)
    assert layout.bytes_per_block == 4 * 100 * 16
    assert layout.blocks_per_request(17) == 2
    assert layout.max_requests(10 * layout.bytes_per_block, 17) == 5


def test_a_draft_model_adds_its_layers_to_every_block() -> None:
    layout = kv_layout([KvLayers(4, 100, None), KvLayers(2, 30, None)], 16)
    assert layout.bytes_per_block == (4 * 100 + 2 * 30) * 16


def test_a_window_holds_one_block_more_than_it_spans() -> None:
    """A window of 33 tokens, 32 of them before the new one: it may touch four blocks of 16."""
    layout = kv_layout([KvLayers(2, 100, 33)], 16)
    assert layout.blocks_per_request(1000) == 3 + 1
    assert layout.blocks_per_request(20) == 2 + 1


def test_start_up_counts_the_tokens_in_flight() -> None:
    """31 + 64 tokens are six blocks, and one: 70 blocks hold ten requests of 1000 tokens."""
    layout = kv_layout([KvLayers(1, 10, 32)], 16)
    assert layout.logged_tokens(70 * 160, 1000, 64) == (10_000, 10.0)


def test_five_window_layers_to_one_full_layer_make_six_groups() -> None:
    """A request of 1024 tokens holds 64 blocks of the full group and 32 + 1 of each other."""
    layout = kv_layout([KvLayers(2, 100, None), KvLayers(10, 100, 512)], 16)
    assert len(layout.groups) == 6
    assert layout.bytes_per_block == 2 * 100 * 16
    assert layout.blocks_per_request(1024) == 64 + 5 * 33


def test_nearly_even_kinds_are_padded_to_the_larger() -> None:
    """12 and 13 layers make two groups of 13 rather than three of 12."""
    layout = kv_layout([KvLayers(13, 100, None), KvLayers(12, 100, 512)], 16)
    assert len(layout.groups) == 2
    assert layout.bytes_per_block == 13 * 100 * 16


def test_smaller_pages_hold_more_tokens() -> None:
    """A layer of half the bytes gets blocks of 32 tokens."""
    layout = kv_layout([KvLayers(1, 100, None), KvLayers(1, 50, 512)], 16)
    assert layout.bytes_per_block == 1600
    assert sorted(group.block_tokens for group in layout.groups) == [16, 32]
