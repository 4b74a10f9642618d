"""Bytes of weights against sums worked out from the shapes, and against published counts."""

from __future__ import annotations

import json
import math

import pytest
from safetensors import safe_open

from paceline.foundation.capacity.model.hf_config import read_model_config
from paceline.foundation.capacity.model.matrices import check_tensor_parallel, tensor_parallel_sizes
from paceline.foundation.capacity.model.quantized_config import read_weight_format
from paceline.foundation.capacity.model.weight_format import WeightFormat, named_format
from paceline.foundation.capacity.model.weights import num_params, pass_work, weight_bytes
from paceline.foundation.named_models import smollm2
from paceline.foundation.planning.sources.catalogue import load_catalogue
from unit.capacity.model.configs import DEEPSEEK, LLAMA

BF16 = WeightFormat("bfloat16", "bfloat16")

# Per layer of the small Llama: 64 * 96 queries, keys and values, 64 * 64 output, 3 * 64 * 128
# feed-forward. The table of embeddings and the output head: 100 rows each, padded to 128.
ATTENTION = 2 * (64 * 96 + 64 * 64)
FEED_FORWARD = 2 * 3 * 64 * 128
EMBEDDINGS = 2 * 128 * 64
NORMS = 2 * 2 * 64 + 64


def test_a_small_llama_by_hand() -> None:
    weights = weight_bytes(read_model_config(LLAMA), BF16)
    assert weights.attention == 2 * ATTENTION
    assert weights.feed_forward == 2 * FEED_FORWARD
    assert weights.embeddings == 2 * EMBEDDINGS
    assert weights.norms == 2 * NORMS
    assert weights.buffers == 256 * 8 * 2 + 2 * 16
    assert weights.total == 2 * (ATTENTION + FEED_FORWARD + EMBEDDINGS + NORMS) + 4128


def test_a_head_has_the_weights_of_its_file() -> None:
    """But for its map of tokens, which are no weights. Its embeddings are the target's."""
    folder = smollm2.head_path()
    head = read_model_config(json.loads((folder / "config.json").read_text()))
    with safe_open(folder / "model.safetensors", "np") as file:
        names = set(file.keys()) - {"d2t"}
        shapes = [file.get_slice(name).get_shape() for name in names]
    assert num_params(head) == sum(math.prod(shape) for shape in shapes)
    assert pass_work(head, BF16).always_read_bytes == pytest.approx(2 * num_params(head), rel=1e-3)


def test_tied_embeddings_are_stored_once() -> None:
    tied = weight_bytes(read_model_config(LLAMA | {"tie_word_embeddings": True}), BF16)
    assert tied.embeddings == 2 * EMBEDDINGS // 2


def test_four_gpus_share_heads_and_hold_a_copy_of_two_kv_heads() -> None:
    """Two of eight heads and one of two KV heads: 16 + 2 * 8 outputs in the place of 96 / 4."""
    weights = weight_bytes(read_model_config(LLAMA), BF16, 4)
    assert weights.attention == 2 * 2 * (64 * 32 + 16 * 64)
    assert weights.feed_forward == 2 * FEED_FORWARD // 4
    assert weights.embeddings == 2 * EMBEDDINGS // 4
    assert weights.norms == 2 * NORMS


def test_biases_count_once_per_output() -> None:
    config = LLAMA | {"architectures": ["Qwen2ForCausalLM"]}
    weights = weight_bytes(read_model_config(config), BF16)
    assert weights.attention == 2 * (ATTENTION + 2 * 96)


def test_latent_attention_and_experts_by_hand() -> None:
    weights = weight_bytes(read_model_config(DEEPSEEK), BF16)
    attention = (
        64 * (24 + 16 + 4)  # compress queries and keys
        + 24 * 4 * (8 + 4)
        + 16 * 4 * (8 + 8)
        + 4 * 8 * 64
    )
    assert weights.attention == 2 * 3 * attention
    assert weights.experts == 2 * 2 * 8 * 3 * 64 * 32
    router_and_shared = 2 * (64 * 8 + 3 * 64 * 32)
    assert weights.feed_forward == 2 * (3 * 64 * 128 + router_and_shared)


@pytest.mark.parametrize(
    ("name", "published"),
    [
        ("Qwen/Qwen2.5-0.5B-Instruct", 494_032_768),
        ("Qwen/Qwen2.5-1.5B-Instruct", 1_543_714_304),
        ("Qwen/Qwen2.5-7B-Instruct", 7_615_616_512),
        ("Qwen/Qwen2.5-72B-Instruct", 72_706_203_648),
        ("Qwen/Qwen3-8B", 8_190_735_360),
        ("Qwen/Qwen3-30B-A3B", 30_532_122_624),
        ("meta-llama/Meta-Llama-3-8B-Instruct", 8_030_261_248),
        ("meta-llama/Meta-Llama-3-70B-Instruct", 70_553_706_496),
        ("meta-llama/Llama-3.1-405B", 405_853_388_800),
        ("meta-llama/Llama-3.2-1B", 1_235_814_400),
        ("meta-llama/Llama-3.2-3B", 3_212_749_824),
        ("mistralai/Mistral-7B-v0.1", 7_241_732_096),
        ("mistralai/Mixtral-8x7B-v0.1", 46_702_792_704),
        ("google/gemma-2-9b", 9_241_705_984),
        ("google/gemma-3-1b-it", 999_885_952),
        ("microsoft/phi-4", 14_659_507_200),
        ("deepseek-ai/DeepSeek-V3", 671_026_404_352),
    ],
)
def test_parameters_of_well_known_models(name: str, published: int) -> None:
    """As Hugging Face counts the tensors of the checkpoints (DeepSeek-V3 without its MTP layer)."""
    config = load_catalogue().model_config(name)
    assert config is not None
    assert num_params(read_model_config(config)) == published


def test_awq_packs_eight_weights_in_four_bytes_with_scales_and_zeros() -> None:
    """64 inputs are one group of 128: one scale and one zero point per output."""
    weights = weight_bytes(read_model_config(LLAMA), named_format("awq", "float16"))
    feed_forward = 2 * (64 * 256 // 2 + 256 * 2 + 256 // 2 + 128 * 64 // 2 + 64 * 2 + 64 // 2)
    assert weights.feed_forward == feed_forward
    assert weights.embeddings == 2 * EMBEDDINGS


def test_int8_has_a_float32_scale_per_output() -> None:
    weights = weight_bytes(read_model_config(LLAMA), named_format("w8a8", "bfloat16"))
    assert weights.attention == 2 * (64 * 96 + 96 * 4 + 64 * 64 + 64 * 4)


def test_fp8_blocks_round_up() -> None:
    """Blocks of 48: 64 inputs are two, 96 outputs are two."""
    config = LLAMA | {"quantization_config": {"quant_method": "fp8", "weight_block_size": [48, 48]}}
    weights = weight_bytes(read_model_config(config), read_weight_format(config, "bfloat16"))
    assert weights.attention == 2 * (64 * 96 + 2 * 2 * 4 + 64 * 64 + 2 * 2 * 4)


def test_modules_left_in_full_precision_are_counted_so() -> None:
    quantization = {
        "quant_method": "fp8",
        "modules_to_not_convert": ["model.layers.0.self_attn.q_proj"],
    }
    config = LLAMA | {"quantization_config": quantization}
    weights = weight_bytes(read_model_config(config), read_weight_format(config, "bfloat16"))
    one_byte = 64 * 96 + 3 * 4 + 2 * (64 * 64 + 4)
    assert weights.attention == 2 * 64 * 96 + one_byte


def test_compressed_tensors_are_read_by_group() -> None:
    weights = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 32}
    config = {
        "quantization_config": {
            "quant_method": "compressed-tensors",
            "format": "pack-quantized",
            "config_groups": {"group_0": {"weights": weights}},
            "ignore": ["lm_head"],
        }
    }
    read = read_weight_format(config, "bfloat16")
    assert read.name == "w4a16"
    assert read.matrix_bytes(64, 32) == 64 * 32 // 2 + 2 * 32 * 2


@pytest.mark.parametrize(("reorders", "index_bytes"), [(False, 0), (True, 64 * 4)])
def test_gptq_stores_the_group_of_an_input_where_it_reorders_them(
    reorders: bool, index_bytes: int
) -> None:
    quantization = {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": reorders}
    read = read_weight_format({"quantization_config": quantization}, "float16")
    assert read.matrix_bytes(64, 32) == 64 * 32 // 2 + 2 * 32 * 2 + 2 * 32 // 2 + index_bytes


def test_an_unknown_quantization_is_refused() -> None:
    with pytest.raises(ValueError, match=r"quant_method in config.json is 'aqlm'; known: awq"):
        read_weight_format({"quantization_config": {"quant_method": "aqlm"}}, "bfloat16")


def test_tensor_parallel_sizes_divide_heads_and_widths() -> None:
    shape = read_model_config(LLAMA)
    assert tensor_parallel_sizes(shape) == [1, 2, 4, 8]
    with pytest.raises(ValueError, match=r"size 3 does not fit.*8 attention heads.*1, 2, 4, 8"):
        check_tensor_parallel(shape, 3)


def test_kv_heads_must_divide_or_be_divided() -> None:
    shape = read_model_config(LLAMA | {"num_attention_heads": 12, "num_key_value_heads": 6,
                                       "head_dim": 8, "intermediate_size": 48})  # fmt: skip
    with pytest.raises(ValueError, match="6 KV heads are neither a multiple nor a divisor"):
        check_tensor_parallel(shape, 4)


def test_a_token_reads_two_of_eight_experts_and_many_read_all() -> None:
    work = pass_work(read_model_config(DEEPSEEK), BF16)
    experts = 2 * 2 * 8 * 3 * 64 * 32
    assert work.read_bytes(1) == pytest.approx(work.always_read_bytes + experts / 4)
    assert work.read_bytes(1000) == pytest.approx(work.always_read_bytes + experts)


def test_the_embedding_table_is_looked_up_and_not_read() -> None:
    untied = pass_work(read_model_config(LLAMA), BF16)
    assert untied.always_read_bytes == 2 * (ATTENTION + FEED_FORWARD + EMBEDDINGS // 2)
    assert untied.head_params == 128 * 64
