"""A Qwen2 decoder for training, with the parameter names of Hugging Face's layout.

It has what training needs: no cache, no generation. `export` writes the weights so that vLLM and
transformers load them as Qwen2ForCausalLM.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HEAD_SIZE = 64
EMBEDDING_STD = 0.02
"""Standard deviation of the initial matrices."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a Qwen2 model with a head size of 64 and tied embeddings."""

    hidden_size: int
    num_layers: int
    num_kv_heads: int
    intermediate_size: int
    vocab_size: int = 4096
    max_positions: int = 2048
    rope_theta: float = 1_000_000.0
    rms_norm_eps: float = 1e-6

    @property
    def num_heads(self) -> int:
        return self.hidden_size // HEAD_SIZE


TARGET_SHAPE = Shape(hidden_size=384, num_layers=6, num_kv_heads=2, intermediate_size=1024)
DRAFT_SHAPE = Shape(hidden_size=384, num_layers=2, num_kv_heads=2, intermediate_size=512)
"""As wide as the target, so that it can start with the target's embeddings. Two layers are the
minimum for copying: an induction head reads what an earlier layer wrote."""


class RmsNorm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, (x.shape[-1],), self.weight.to(x.dtype), self.eps)


class Attention(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.num_heads, self.num_kv_heads = shape.num_heads, shape.num_kv_heads
        kv_size = shape.num_kv_heads * HEAD_SIZE
        self.q_proj = nn.Linear(shape.hidden_size, shape.hidden_size, bias=True)
        self.k_proj = nn.Linear(shape.hidden_size, kv_size, bias=True)
        self.v_proj = nn.Linear(shape.hidden_size, kv_size, bias=True)
        self.o_proj = nn.Linear(shape.hidden_size, shape.hidden_size, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        rows, length, _ = x.shape
        q = self.q_proj(x).view(rows, length, self.num_heads, HEAD_SIZE).transpose(1, 2)
        k = self.k_proj(x).view(rows, length, self.num_kv_heads, HEAD_SIZE).transpose(1, 2)
        v = self.v_proj(x).view(rows, length, self.num_kv_heads, HEAD_SIZE).transpose(1, 2)
        q, k = _rotate(q, cos, sin), _rotate(k, cos, sin)
        repeat = self.num_heads // self.num_kv_heads
        k, v = k.repeat_interleave(repeat, dim=1), v.repeat_interleave(repeat, dim=1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out: Tensor = self.o_proj(y.transpose(1, 2).reshape(rows, length, -1))
        return out


class FeedForward(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.up_proj = nn.Linear(shape.hidden_size, shape.intermediate_size, bias=False)
        self.down_proj = nn.Linear(shape.intermediate_size, shape.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.input_layernorm = RmsNorm(shape.hidden_size, shape.rms_norm_eps)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = RmsNorm(shape.hidden_size, shape.rms_norm_eps)
        self.mlp = FeedForward(shape)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Decoder(nn.Module):
    """Token ids (num_rows, length) to hidden states (num_rows, length, hidden_size)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab_size, shape.hidden_size)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.num_layers))
        self.norm = RmsNorm(shape.hidden_size, shape.rms_norm_eps)
        frequencies = 1.0 / shape.rope_theta ** (torch.arange(0, HEAD_SIZE, 2) / HEAD_SIZE)
        angles = torch.outer(torch.arange(shape.max_positions).float(), frequencies)
        angles = torch.cat((angles, angles), dim=-1)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        self.cos: Tensor
        self.sin: Tensor

    def forward(self, token_ids: Tensor) -> Tensor:
        x = self.embed_tokens(token_ids)
        if torch.is_autocast_enabled("cpu"):
            x = x.to(torch.get_autocast_dtype("cpu"))
        length = token_ids.shape[1]
        cos, sin = self.cos[:length].to(x.dtype), self.sin[:length].to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        out: Tensor = self.norm(x)
        return out


class Qwen2(nn.Module):
    """Token ids (num_rows, length) to logits (num_rows, length, vocab_size); tied embeddings."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.model = Decoder(shape)
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)
            elif parameter.ndim == 2:
                residual = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(
                    parameter,
                    std=EMBEDDING_STD / (2 * shape.num_layers) ** 0.5
                    if residual
                    else EMBEDDING_STD,
                )

    def forward(self, token_ids: Tensor) -> Tensor:
        return F.linear(self.model(token_ids), self.model.embed_tokens.weight)


def num_parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return x * cos + turned * sin
