"""The network of an EAGLE-3 head, with the names and the arithmetic of vLLM 0.32
(`model_executor/models/llama_eagle3.py`).

A head turns the hidden state of a position and the token after it into the logits of the token
after that, over its own vocabulary, and into the hidden state that stands for the target's at the
next position. References: EAGLE-3, arXiv 2503.01840.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

KeysAndValues = tuple[Tensor, Tensor]
"""Both (num_texts, num_heads, length, head_dim), keys rotated."""


@dataclass(frozen=True, slots=True)
class HeadConfig:
    """Sizes of a head. All but the vocabulary follow the target."""

    hidden_size: int
    intermediate_size: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    rms_norm_eps: float
    rope_theta: float
    max_positions: int
    vocab_size: int
    """Of the target."""
    draft_vocab_size: int
    aux_layers: tuple[int, ...]
    """Ascending; i is the hidden state after the target's first i layers."""


class Eagle3Head(nn.Module):
    """One layer. Its parameters and its buffer have the names of the checkpoint."""

    d2t: Tensor

    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.config = config
        self.register_buffer("d2t", torch.zeros(config.draft_vocab_size, dtype=torch.int64))
        size = config.hidden_size
        self.fc = nn.Linear(len(config.aux_layers) * size, size, bias=False)
        self.midlayer = _Layer(config)
        self.norm = nn.RMSNorm(size, config.rms_norm_eps)
        self.lm_head = nn.Linear(size, config.draft_vocab_size, bias=False)

    @property
    def tokens(self) -> Tensor:
        """The target's ids of the tokens that it drafts, (draft_vocab_size,)."""
        return torch.arange(len(self.d2t), device=self.d2t.device) + self.d2t

    def combine(self, aux: Tensor) -> Tensor:
        """Hidden states of the target, (…, num_aux * hidden_size), as one, (…, hidden_size)."""
        combined: Tensor = self.fc(aux)
        return combined

    def remember(self, embedded: Tensor, hidden: Tensor) -> KeysAndValues:
        """Keys and values of the rows of some texts, at the positions 0, 1, …: what drafts that
        begin at a row or after it attend to. Both arguments are (num_texts, length, hidden_size).
        """
        positions = torch.arange(embedded.shape[1], device=embedded.device)
        return self.midlayer.remember(embedded, hidden, positions)

    def advance(
        self,
        embedded: Tensor,
        hidden: Tensor,
        rows: Tensor,
        num_before: int,
        remembered: KeysAndValues,
        own: Sequence[KeysAndValues],
    ) -> tuple[Tensor, KeysAndValues]:
        """One pass of drafts that begin at `rows`, (num_texts, num_drafts), each of its own.

        `embedded` and `hidden` are (num_texts, num_drafts, hidden_size), and of the position
        row + `num_before`. A draft sees what is `remembered` before its row, and its own keys
        and values, `own` and those of this pass. Returns the hidden states that follow, and the
        keys and values of this pass.
        """
        return self.midlayer(  # type: ignore[no-any-return]
            embedded, hidden, rows, num_before, remembered, own
        )

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits over the draft vocabulary, (…, draft_vocab_size)."""
        found: Tensor = self.lm_head(self.norm(hidden))
        return found


class _Layer(nn.Module):
    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        size, eps = config.hidden_size, config.rms_norm_eps
        self.input_layernorm = nn.RMSNorm(size, eps)
        self.hidden_norm = nn.RMSNorm(size, eps)
        self.self_attn = _Attention(config)
        self.post_attention_layernorm = nn.RMSNorm(size, eps)
        self.mlp = _Mlp(size, config.intermediate_size)

    def remember(self, embedded: Tensor, hidden: Tensor, positions: Tensor) -> KeysAndValues:
        made: KeysAndValues = self.self_attn.remember(self._inputs(embedded, hidden), positions)
        return made

    def forward(
        self,
        embedded: Tensor,
        hidden: Tensor,
        rows: Tensor,
        num_before: int,
        remembered: KeysAndValues,
        own: Sequence[KeysAndValues],
    ) -> tuple[Tensor, KeysAndValues]:
        inputs = self._inputs(embedded, hidden)
        attended, made = self.self_attn(inputs, rows, num_before, remembered, own)
        hidden = hidden + attended
        return hidden + self.mlp(self.post_attention_layernorm(hidden)), made

    def _inputs(self, embedded: Tensor, hidden: Tensor) -> Tensor:
        return torch.cat([self.input_layernorm(embedded), self.hidden_norm(hidden)], dim=-1)


class _Mlp(nn.Module):
    def __init__(self, size: int, intermediate_size: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(size, intermediate_size, bias=False)
        self.up_proj = nn.Linear(size, intermediate_size, bias=False)
        self.down_proj = nn.Linear(intermediate_size, size, bias=False)

    def forward(self, inputs: Tensor) -> Tensor:
        outputs: Tensor = self.down_proj(F.silu(self.gate_proj(inputs)) * self.up_proj(inputs))
        return outputs


class _Attention(nn.Module):
    def __init__(self, config: HeadConfig) -> None:
        super().__init__()
        self.config = config
        size, dim = config.hidden_size, config.head_dim
        self.q_proj = nn.Linear(2 * size, config.num_heads * dim, bias=False)
        self.k_proj = nn.Linear(2 * size, config.num_kv_heads * dim, bias=False)
        self.v_proj = nn.Linear(2 * size, config.num_kv_heads * dim, bias=False)
        self.o_proj = nn.Linear(config.num_heads * dim, size, bias=False)

    def remember(self, inputs: Tensor, positions: Tensor) -> KeysAndValues:
        config = self.config
        rotation = _rotation(config, positions, inputs.dtype)
        keys = _rotated(self._split(self.k_proj(inputs), config.num_kv_heads), rotation)
        values = self._split(self.v_proj(inputs), config.num_kv_heads)
        group = config.num_heads // config.num_kv_heads
        return keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)

    def forward(
        self,
        inputs: Tensor,
        rows: Tensor,
        num_before: int,
        remembered: KeysAndValues,
        own: Sequence[KeysAndValues],
    ) -> tuple[Tensor, KeysAndValues]:
        config, positions = self.config, rows + num_before
        rotation = _rotation(config, positions, inputs.dtype)
        queries = _rotated(self._split(self.q_proj(inputs), config.num_heads), rotation)
        made = self.remember(inputs, positions)
        attended = _attend(queries, rows, remembered, [*own, made])
        merged = attended.transpose(1, 2).reshape(*rows.shape, -1)
        return self.o_proj(merged), made

    def _split(self, rows: Tensor, num_heads: int) -> Tensor:
        num_texts, length, _ = rows.shape
        return rows.view(num_texts, length, num_heads, self.config.head_dim).transpose(1, 2)


def _attend(
    queries: Tensor, rows: Tensor, remembered: KeysAndValues, own: Sequence[KeysAndValues]
) -> Tensor:
    """Attention of each draft to what is remembered before its row, and to its own passes."""
    keys, values = remembered
    scale, length = queries.shape[3] ** -0.5, keys.shape[2]
    not_before = torch.arange(length, device=rows.device) >= rows.unsqueeze(-1)
    scores = (queries @ keys.transpose(2, 3)).masked_fill(not_before.unsqueeze(1), -torch.inf)
    of_own = [(queries * k).sum(-1, keepdim=True) for k, _ in own]
    weights = torch.cat([scores, *of_own], -1).mul(scale).softmax(-1)
    attended: Tensor = weights[..., :length] @ values
    for index, (_, own_values) in enumerate(own):
        attended = attended + weights[..., length + index, None] * own_values
    return attended


def _rotation(config: HeadConfig, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Cosines and sines; for positions (…, length), (…, 1, length, head_dim) each."""
    half = torch.arange(0, config.head_dim, 2, device=positions.device, dtype=torch.float32)
    frequencies = config.rope_theta ** (-half / config.head_dim)
    angles = positions.float().unsqueeze(-1) * frequencies
    angles = torch.cat([angles, angles], dim=-1).unsqueeze(-3)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def _rotated(rows: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    cosines, sines = rotation
    first, second = rows.chunk(2, dim=-1)
    return rows * cosines + torch.cat([-second, first], dim=-1) * sines
