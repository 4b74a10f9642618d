"""Step times of the small Llama against their formula."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from paceline.foundation.capacity.hardware import Hardware, Overheads
from paceline.foundation.capacity.model.hf_config import read_model_config
from paceline.foundation.capacity.model.kv_layout import kv_layers
from paceline.foundation.capacity.model.weight_format import WeightFormat, named_format
from paceline.foundation.capacity.step_time import ModelTime, StepTime, model_time
from paceline.foundation.planning.sources.catalogue import load_catalogue
from unit.capacity.machines import GPU
from unit.capacity.model.configs import LLAMA

BF16 = WeightFormat("bfloat16", "bfloat16")
READ_BYTES = 2 * (2 * (64 * 96 + 64 * 64 + 3 * 64 * 128) + 128 * 64)
"""All matrices but the embedding table."""
KV_BYTES = 2 * 2 * 2 * 8 * 2


def small(hardware: Hardware = GPU, tensor_parallel: int = 1) -> ModelTime:
    shape = read_model_config(LLAMA)
    layers = kv_layers(shape, "bfloat16", tensor_parallel)
    return model_time(shape, BF16, layers, hardware, tensor_parallel)


def test_one_token_reads_all_weights() -> None:
    assert small().pass_s(1, 1, 0) == pytest.approx(READ_BYTES / 0.5e9)


def test_context_is_read_for_every_request() -> None:
    seconds = small().pass_s(10, 10, 1000) - small().pass_s(10, 10, 0)
    assert seconds == pytest.approx(10 * 1000 * KV_BYTES / 0.5e9)


def test_many_tokens_are_bound_by_arithmetic() -> None:
    assert small().pass_s(1e6, 1, 0) == pytest.approx(1e6 * READ_BYTES / 0.5e12)


def test_a_cpu_pays_for_memory_and_arithmetic() -> None:
    cpu = replace(GPU, sums_memory_and_arithmetic=True)
    assert small(cpu).pass_s(10, 1, 0) == pytest.approx(READ_BYTES / 0.5e9 + 10 * READ_BYTES / 5e11)


def test_a_window_bounds_the_context_that_is_read() -> None:
    shape = read_model_config(LLAMA | {"sliding_window": 100})
    timed = model_time(shape, BF16, kv_layers(shape, "bfloat16"), GPU, 1)
    seconds = timed.pass_s(1, 1, 1000) - timed.pass_s(1, 1, 0)
    assert seconds == pytest.approx(100 * KV_BYTES / 0.5e9)


def test_two_gpus_halve_the_weights_and_reduce_twice_a_layer() -> None:
    """Each all-reduce: 1 us, and 2 * 1/2 * 64 values of 2 bytes at 1 GB/s."""
    one, two = small().pass_s(1, 1, 0), small(tensor_parallel=2).pass_s(1, 1, 0)
    assert two == pytest.approx(one / 2 + 2 * 2 * (1e-6 + 128e-9))


def test_fp8_weights_are_multiplied_in_fp8_where_the_hardware_has_it() -> None:
    shape = read_model_config(LLAMA)
    layers = kv_layers(shape, "bfloat16")
    fp8 = named_format("fp8", "bfloat16")
    assert model_time(shape, fp8, layers, GPU, 1).flops_per_s == 2e12
    older = replace(GPU, flops_per_s={"bfloat16": 1e12})
    assert model_time(shape, fp8, layers, older, 1).flops_per_s == 1e12


def test_a_format_that_the_hardware_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match=r"round does not compute in bfloat16.*Set --dtype"):
        small(replace(GPU, flops_per_s={"float16": 1e12}))


def test_a_prompt_computes_one_row_of_the_output_head() -> None:
    slow = replace(GPU, bandwidth_bytes_per_s=1e18)
    body = READ_BYTES / 2 - 128 * 64
    attention = 2 * 64 * 2 * (100 * 100 / 2) * 2
    expected = (2 * (body * 100 + 128 * 64) + attention) / 0.5e12
    assert small(slow).prefill_s(100) == pytest.approx(expected)


def test_drafts_add_their_verification_and_their_passes() -> None:
    overheads = Overheads(
        step_s=1.0,
        layer_s=0.0,
        request_s=0.1,
        verify_s=0.5,
        verify_token_s=0.01,
        draft_pass_s=0.2,
        draft_request_s=0.02,
    )
    free = replace(
        GPU, overheads=overheads, bandwidth_bytes_per_s=1e18, flops_per_s={"bfloat16": 1e24}
    )
    times = StepTime(small(free), small(free))
    assert times.decode_s(4, 0) == pytest.approx(1.0 + 0.4)
    drafting = 1.0 + 0.4 + 0.5 + 0.01 * 12 + 3 * (0.2 + 0.08)
    assert times.decode_s(4, 0, 3) == pytest.approx(drafting)
    assert StepTime(small(free), None).decode_s(4, 0, 3) == pytest.approx(drafting - 3 * 0.28)


def prefill_attention_s(config: dict[str, Any], prompt_tokens: int) -> float:
    """Seconds of a prompt beyond those of its weights, on a GPU with free memory."""
    shape = read_model_config(config)
    fast = replace(GPU, bandwidth_bytes_per_s=1e18)
    timed = model_time(shape, BF16, kv_layers(shape, "bfloat16"), fast, 1)
    return timed.prefill_s(prompt_tokens) - timed.pass_s(prompt_tokens, 1, 0, sampled_tokens=1.0)


def test_a_window_bounds_the_pairs_of_a_prompt() -> None:
    """200 tokens with a window of 100: 100 * 100 / 2 pairs, then 100 * 100."""
    seconds = prefill_attention_s(LLAMA | {"sliding_window": 100}, 200)
    assert seconds == pytest.approx(2 * 64 * 2 * 15_000 * 2 / 0.5e12)


def test_latent_attention_multiplies_the_rotated_part_of_keys_too() -> None:
    """DeepSeek-V3: 128 heads of 128 + 64 for scores and 128 for values, 61 layers."""
    config = load_catalogue().model_config("deepseek-ai/DeepSeek-V3")
    assert config is not None
    seconds = prefill_attention_s(dict(config), 1000)
    assert seconds == pytest.approx(2 * 128 * 320 * (1000 * 1000 / 2) * 61 / 0.5e12)
