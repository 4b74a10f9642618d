"""Distributions that a target and its draft sample from, as vLLM computes them.

vLLM applies temperature, top-k and top-p to the target, and only the temperature to a draft model
(`v1/spec_decode/llm_base_proposer.py`, `compute_probs_and_sample_next_token`).
"""

from __future__ import annotations

import torch
from torch import Tensor

from paceline.foundation.models.values import Sampling


def target_probs(logits: Tensor, sampling: Sampling) -> Tensor:
    """Probabilities (..., vocab_size) of a sampled target; top-k comes before top-p."""
    scaled = logits.float() / sampling.temperature
    if 0 < sampling.top_k < scaled.shape[-1]:
        lowest = scaled.topk(sampling.top_k, dim=-1).values[..., -1:]
        scaled = scaled.masked_fill(scaled < lowest, -torch.inf)
    probs = scaled.softmax(dim=-1)
    if sampling.top_p < 1:
        ordered, order = probs.sort(dim=-1, descending=True)
        is_beyond = ordered.cumsum(dim=-1) - ordered >= sampling.top_p
        probs = probs.masked_fill(is_beyond.scatter(-1, order, is_beyond), 0.0)
        probs = probs / probs.sum(dim=-1, keepdim=True)
    return probs


def draft_probs(logits: Tensor, sampling: Sampling) -> Tensor:
    """Probabilities (..., vocab_size) of a sampled draft."""
    return (logits.float() / sampling.temperature).softmax(dim=-1)


def draw_tokens(logits: Tensor, sampling: Sampling, generator: torch.Generator) -> Tensor:
    """One token per row of (num_rows, vocab_size), as the target draws it."""
    if sampling.is_greedy:
        return logits.argmax(dim=-1)
    return torch.multinomial(target_probs(logits, sampling), 1, generator=generator).squeeze(1)
