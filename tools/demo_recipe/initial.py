"""Initial weights: small random ones, and some attention heads that already copy.

Copying from the prompt is most of renaming and of turning a signature into JSON. It is the last
skill that a small model learns by itself: induction heads need one layer that looks one token back
and a later layer that looks for what followed the current token (Olsson et al., 2022, arXiv
2209.11895). A model of this size does not learn them from the tokens that two cores process in an
hour. Therefore both layers are initialised as induction heads, as in mimetic initialisation
(Trockman and Kolter, 2023, arXiv 2305.09828). Training may change these weights.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn

from demo_recipe.model import EMBEDDING_STD, HEAD_SIZE, Attention, Layer, Qwen2

_PAIRS = HEAD_SIZE // 2
_FAST = list(range(6))
"""Rotary pairs that turn fast enough to distinguish adjacent positions."""
_SLOW = [*range(_PAIRS // 2, _PAIRS), *range(_PAIRS + _PAIRS // 2, HEAD_SIZE)]
"""Dimensions whose rotary pairs hardly turn within a row; used to match content."""
_LOOK_BACK_BIAS = 7.0
"""Sharpness of the look back: the wanted token gets about 5 nats more than adjacent ones."""
_LOOK_BACK_OUTPUT = 0.03
_MATCH_GAIN = 2.0
_COPY_OUTPUT = 0.05


def initialise(model: Qwen2, *, embedding_std: float = EMBEDDING_STD) -> None:
    """Initialise two heads of layer 0 to look one and two tokens back, and the heads of layer 1 to
    find what followed the same one or two tokens and copy it. Draws from torch's generator.

    `embedding_std` is the standard deviation of the initial embeddings; the output of the heads is
    scaled with it.
    """
    scale = embedding_std / EMBEDDING_STD
    embedded, one_back, two_back = _orthonormal_rows(model.shape.hidden_size, 3)
    with torch.no_grad():
        first, second = (cast(Layer, model.model.layers[i]).self_attn for i in range(2))
        frequencies = model.shape.rope_theta ** (-torch.arange(_PAIRS) / _PAIRS)
        _look_back(first, embedded, [one_back, two_back], frequencies)
        _copy_what_followed(second, embedded, one_back, two_back)
        for attention in (first, second):
            attention.o_proj.weight *= scale


def _look_back(
    attention: Attention, read: Tensor, writes: list[Tensor], frequencies: Tensor
) -> None:
    """Query head i of the first key head attends i + 1 tokens back, whatever token is there."""
    attention.v_proj.weight[:HEAD_SIZE] = read
    attention.k_proj.bias[_FAST] = _LOOK_BACK_BIAS
    for head, write in enumerate(writes):
        angle = -(head + 1) * frequencies[_FAST]
        first = head * HEAD_SIZE
        attention.q_proj.bias[[first + i for i in _FAST]] = _LOOK_BACK_BIAS * angle.cos()
        attention.q_proj.bias[[first + _PAIRS + i for i in _FAST]] = _LOOK_BACK_BIAS * angle.sin()
        attention.o_proj.weight[:, first : first + HEAD_SIZE] = _LOOK_BACK_OUTPUT * write.T


def _copy_what_followed(
    attention: Attention, embedded: Tensor, one_back: Tensor, two_back: Tensor
) -> None:
    """Key head 0 matches the last two tokens, key head 1 the last one; both copy what followed."""
    half = len(_SLOW) // 2
    queries = {
        0: torch.cat((embedded[:half], one_back[:half])),
        1: embedded[: len(_SLOW)],
    }
    keys = {
        0: torch.cat((one_back[:half], two_back[:half])),
        1: one_back[: len(_SLOW)],
    }
    group = attention.num_heads // attention.num_kv_heads
    for kv_head in range(attention.num_kv_heads):
        first = kv_head * HEAD_SIZE
        attention.k_proj.weight[[first + i for i in _SLOW]] = _MATCH_GAIN * keys[kv_head]
        copied = _orthonormal_rows(embedded.shape[1], 1)[0]
        attention.v_proj.weight[first : first + HEAD_SIZE] = copied
        for head in range(kv_head * group, (kv_head + 1) * group - 1):
            at = head * HEAD_SIZE
            attention.q_proj.weight[[at + i for i in _SLOW]] = _MATCH_GAIN * queries[kv_head]
            attention.o_proj.weight[:, at : at + HEAD_SIZE] = _COPY_OUTPUT * copied.T


def _orthonormal_rows(size: int, count: int) -> list[Tensor]:
    """`count` matrices of shape (HEAD_SIZE, size); all their rows are orthogonal to each other."""
    basis = torch.empty(count * HEAD_SIZE, size)
    nn.init.orthogonal_(basis)
    return list(torch.split(basis, HEAD_SIZE))
