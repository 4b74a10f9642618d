"""The passes of a draft over a whole text at once, against one draft after the other, token by
token, with the arithmetic of vLLM's class written out."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from paceline.foundation.models.heads.drafts import Drafts
from paceline.foundation.models.heads.head import Eagle3Head, HeadConfig

CONFIG = HeadConfig(
    hidden_size=16,
    intermediate_size=24,
    num_heads=4,
    num_kv_heads=2,
    head_dim=8,
    rms_norm_eps=1e-5,
    rope_theta=100.0,
    max_positions=64,
    vocab_size=40,
    draft_vocab_size=10,
    aux_layers=(1, 2, 3),
)
LENGTH, NUM_PASSES = 9, 4
CLOSE = {"atol": 1e-5, "rtol": 1e-5}
"""Angles are computed in float32."""


@pytest.fixture(scope="module")
def head() -> Eagle3Head:
    torch.manual_seed(0)
    made = Eagle3Head(CONFIG).double()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return made


def rms(rows: Tensor, weight: Tensor) -> Tensor:
    return rows * torch.rsqrt(rows.pow(2).mean(-1, keepdim=True) + CONFIG.rms_norm_eps) * weight


def rotate(row: Tensor, position: int) -> Tensor:
    """Rows of heads, (num_heads, head_dim), as Llama rotates them."""
    half = CONFIG.head_dim // 2
    turned = row.clone()
    for i in range(half):
        angle = torch.tensor(position * CONFIG.rope_theta ** (-2 * i / CONFIG.head_dim))
        first, second = row[:, i], row[:, i + half]
        turned[:, i] = first * angle.cos() - second * angle.sin()
        turned[:, i + half] = second * angle.cos() + first * angle.sin()
    return turned


def one_pass(
    head: Eagle3Head,
    token: Tensor,
    hidden: Tensor,
    position: int,
    cache: list[tuple[Tensor, Tensor]],
) -> Tensor:
    """The layer on one row; appends its key and value to the cache."""
    layer = head.midlayer
    attention, mlp = layer.self_attn, layer.mlp
    inputs = torch.cat(
        [rms(token, layer.input_layernorm.weight), rms(hidden, layer.hidden_norm.weight)]
    )
    heads, kv_heads, dim = CONFIG.num_heads, CONFIG.num_kv_heads, CONFIG.head_dim
    query = rotate((attention.q_proj.weight @ inputs).view(heads, dim), position)
    key = rotate((attention.k_proj.weight @ inputs).view(kv_heads, dim), position)
    cache.append((key, (attention.v_proj.weight @ inputs).view(kv_heads, dim)))
    attended = []
    for number in range(heads):
        of = number // (heads // kv_heads)
        scores = torch.stack([query[number] @ k[of] for k, _ in cache]) / dim**0.5
        attended.append(scores.softmax(0) @ torch.stack([v[of] for _, v in cache]))
    hidden = hidden + attention.o_proj.weight @ torch.cat(attended)
    normed = rms(hidden, layer.post_attention_layernorm.weight)
    gated = torch.nn.functional.silu(mlp.gate_proj.weight @ normed) * (mlp.up_proj.weight @ normed)
    return hidden + mlp.down_proj.weight @ gated


def test_every_pass_is_that_of_a_draft_of_its_own(head: Eagle3Head) -> None:
    torch.manual_seed(1)
    aux = torch.randn(1, LENGTH, 3 * CONFIG.hidden_size, dtype=torch.double)
    embedded = torch.randn(1, LENGTH, CONFIG.hidden_size, dtype=torch.double)
    with torch.no_grad():
        drafts = Drafts(head, aux, embedded, NUM_PASSES)
        passes = [drafts.advance() for _ in range(NUM_PASSES)]
        assert [tuple(p.shape) for p in passes] == [(1, LENGTH - NUM_PASSES, 16)] * NUM_PASSES
        for start in range(LENGTH - NUM_PASSES):
            cache: list[tuple[Tensor, Tensor]] = []
            for position in range(start + 1):  # the target's states up to where the draft begins
                combined = head.fc.weight @ aux[0, position]
                hidden = one_pass(head, embedded[0, position + 1], combined, position, cache)
            torch.testing.assert_close(passes[0][0, start], hidden, **CLOSE)
            for number in range(2, NUM_PASSES + 1):
                token = embedded[0, start + number]
                hidden = one_pass(head, token, hidden, start + number - 1, cache)
                torch.testing.assert_close(passes[number - 1][0, start], hidden, **CLOSE)


def test_logits_are_of_the_normed_state(head: Eagle3Head) -> None:
    hidden = torch.randn(3, CONFIG.hidden_size, dtype=torch.double)
    expected = rms(hidden, head.norm.weight) @ head.lm_head.weight.T
    torch.testing.assert_close(head.logits(hidden), expected)
