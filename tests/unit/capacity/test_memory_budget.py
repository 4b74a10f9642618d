"""The memory of a GPU is divided as vLLM divides it."""

from __future__ import annotations

import pytest

from paceline.foundation.capacity.memory_budget import MemoryBudget, activation_bytes, runtime_bytes
from paceline.foundation.capacity.model.hf_config import read_model_config
from paceline.foundation.capacity.model.weight_format import WeightFormat
from paceline.foundation.capacity.model.weights import weight_bytes
from paceline.foundation.planning.sources.catalogue import load_catalogue
from unit.capacity.model.configs import DEEPSEEK, LLAMA


def test_the_cache_gets_what_is_left_of_the_allowed_share() -> None:
    budget = MemoryBudget(1000, 0.9, 300, 100, 50, 20, 10)
    assert budget.kv_cache == 900 - 480


def test_a_model_that_does_not_fit_leaves_less_than_nothing() -> None:
    assert MemoryBudget(100, 0.9, 200, 0, 0, 0, 0).kv_cache == -110


def test_activations_by_hand() -> None:
    """10 tokens of 4 * 64 + 3 * 128 values; 3.8 copies of 50 rows of 128 logits in float32."""
    few = activation_bytes(
        read_model_config(LLAMA), dtype_bytes=2, tensor_parallel=1, max_batched_tokens=10,
        max_num_seqs=1,
    )  # fmt: skip
    many = activation_bytes(
        read_model_config(LLAMA), dtype_bytes=2, tensor_parallel=1, max_batched_tokens=10,
        max_num_seqs=50,
    )  # fmt: skip
    assert few == 10 * (4 * 64 + 3 * 128) * 2
    assert many == 3.8 * 4 * 50 * 128


def test_every_expert_of_a_token_has_a_workspace() -> None:
    """Two experts of 3 * 32 + 64 values beside 4 * 64 + 3 * 128 of the dense layer."""
    size = activation_bytes(
        read_model_config(DEEPSEEK), dtype_bytes=2, tensor_parallel=1, max_batched_tokens=10,
        max_num_seqs=0,
    )  # fmt: skip
    assert size == 10 * (4 * 64 + 3 * 128 + 2 * (3 * 32 + 64)) * 2


# Start-up logs of vLLM 0.19 on H100, 8192 tokens of context, gpu_memory_utilization 0.95: weights
# and KV cache in GiB (accuracy/results/v0.19.0 of github.com/llm-d-incubation/llm-d-planner). That
# release does not subtract CUDA graphs.
H100_LOGS = [
    ("meta-llama/Llama-3.1-8B-Instruct", 1, 14.99, 58.11),
    ("meta-llama/Llama-3.1-8B-Instruct", 2, 7.51, None),
    ("meta-llama/Llama-3.1-8B-Instruct", 4, 3.77, None),
    ("Qwen/Qwen2.5-7B-Instruct", 1, 14.25, 58.53),
    ("Qwen/Qwen2.5-7B-Instruct", 2, 7.12, None),
]


@pytest.mark.parametrize(("name", "size", "weights_gib", "kv_gib"), H100_LOGS)
def test_weights_and_cache_of_real_gpus(
    name: str, size: int, weights_gib: float, kv_gib: float | None
) -> None:
    config = load_catalogue().model_config(name)
    assert config is not None
    shape = read_model_config(config)
    weights = weight_bytes(shape, WeightFormat("bfloat16", "bfloat16"), size).total
    assert weights / 2**30 == pytest.approx(weights_gib, rel=0.005)
    if kv_gib is None:
        return
    activations = activation_bytes(
        shape, dtype_bytes=2, tensor_parallel=size, max_batched_tokens=8192, max_num_seqs=1024
    )
    budget = MemoryBudget(int(79.19 * 2**30), 0.95, weights, 0, activations, 0, runtime_bytes(size))
    assert budget.kv_cache / 2**30 == pytest.approx(kv_gib, rel=0.01)
