"""Configurations are read into shapes, or refused with the field that is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.foundation.capacity.model.hf_config import UnknownModelError, read_model_config
from paceline.foundation.capacity.model.shape import HeadAttention, LatentAttention
from unit.capacity.model.configs import DEEPSEEK, LLAMA


def test_an_unknown_architecture_is_refused_with_the_known_ones() -> None:
    config = LLAMA | {"architectures": ["MambaForCausalLM"]}
    with pytest.raises(UnknownModelError, match=r"'MambaForCausalLM'.*known: LlamaForCausalLM"):
        read_model_config(config)


def test_a_config_without_architectures_is_refused() -> None:
    with pytest.raises(UnknownModelError, match="architecture None"):
        read_model_config({})


@pytest.mark.parametrize("value", [0, -1, None, "64", 1.5, True])
def test_a_size_that_is_no_positive_integer_is_refused(value: Any) -> None:
    with pytest.raises(UnknownModelError, match=r"hidden_size in config\.json is"):
        read_model_config(LLAMA | {"hidden_size": value})


def test_heads_are_multi_head_where_no_number_of_kv_heads_is_given() -> None:
    config = {key: value for key, value in LLAMA.items() if key != "num_key_value_heads"}
    attention = read_model_config(config).attention
    assert isinstance(attention, HeadAttention)
    assert attention.num_kv_heads == 8


def test_qwen2_has_biases_on_queries_keys_and_values_only() -> None:
    attention = read_model_config(LLAMA | {"architectures": ["Qwen2ForCausalLM"]}).attention
    assert isinstance(attention, HeadAttention)
    assert attention.has_qkv_bias
    assert not attention.has_output_bias


def test_qwen3_normalizes_queries_and_keys() -> None:
    attention = read_model_config(LLAMA | {"architectures": ["Qwen3ForCausalLM"]}).attention
    assert isinstance(attention, HeadAttention)
    assert attention.has_qk_norm
    assert attention.head_dim == 128


def test_deepseek_has_latent_attention_and_dense_layers_first() -> None:
    shape = read_model_config(DEEPSEEK)
    assert isinstance(shape.attention, LatentAttention)
    assert shape.num_dense_layers == 1
    assert shape.num_expert_layers == 2


def test_every_second_layer_of_gemma2_has_the_whole_context() -> None:
    config = LLAMA | {"architectures": ["Gemma2ForCausalLM"], "sliding_window": 32, "head_dim": 8}
    assert read_model_config(config).sliding_windows == (32, None)


def test_layer_types_decide_where_they_are_given() -> None:
    config = LLAMA | {
        "architectures": ["Gemma3ForCausalLM"],
        "sliding_window": 32,
        "layer_types": ["sliding_attention", "full_attention"],
    }
    assert read_model_config(config).sliding_windows == (32, None)


def test_layer_types_of_the_wrong_number_are_refused() -> None:
    config = LLAMA | {"sliding_window": 32, "layer_types": ["sliding_attention"]}
    with pytest.raises(UnknownModelError, match=r"layer_types in config\.json has 1 entries"):
        read_model_config(config)


def test_qwen_ignores_the_window_that_it_does_not_use() -> None:
    config = LLAMA | {"architectures": ["Qwen2ForCausalLM"], "sliding_window": 32}
    assert read_model_config(config).sliding_windows == (None, None)


@pytest.mark.parametrize(
    ("scaling", "positions"),
    [
        (None, 256),
        ({"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 64}, 256),
        ({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}, 512),
        ({"rope_type": "linear", "factor": 2.0}, 512),
    ],
)
def test_scaled_positions_lengthen_the_rotary_table(
    scaling: dict[str, Any] | None, positions: int
) -> None:
    shape = read_model_config(LLAMA | {"rope_scaling": scaling})
    assert shape.rotary.num_positions == positions
    assert shape.rotary.rotary_dim == 8
