"""Mixtures of experts are recognized by the names that vLLM reads."""

from __future__ import annotations

from typing import Any

import pytest

from paceline.foundation.compatibility.experts import has_experts


@pytest.mark.parametrize(
    "config",
    [
        {"num_experts": 128},
        {"n_routed_experts": 256},
        {"text_config": {"num_local_experts": 8}},
        {"ffn_config": {"moe_num_experts": 16}},
        {"moe_num_experts": [64, 64]},
        {"block_configs": [{"block_type": "mamba"}, {"n_routed_experts": 4}]},
    ],
)
def test_a_mixture_is_recognized(config: Any) -> None:
    assert has_experts(config)


@pytest.mark.parametrize(
    "config", [{}, {"num_experts": 0}, {"n_routed_experts": None}, {"hidden_size": 64}]
)
def test_a_dense_model_has_none(config: Any) -> None:
    assert not has_experts(config)
