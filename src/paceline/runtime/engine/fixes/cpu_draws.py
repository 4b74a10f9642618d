"""Draw tokens on CPUs by one uniform number per row instead of one exponential per token.

vLLM draws tokens as the largest of probability ÷ exponential noise, so that a GPU need not wait for
the host. On CPUs that is noise for the whole vocabulary. torch draws it for drafts, and for the
token that replaces a rejected one: 0.9 ms for a row of 49,152 tokens, 15 ms for 16. A kernel of
vLLM's draws it for all other tokens: 0.2 and 1.9 ms, and 7.3 ms for 64 rows, where a whole step of
a 135M model without drafts takes 9, 18 and 55 ms. Here a row's token is the first whose cumulative
probability exceeds a uniform number, sought among blocks of tokens and then in one block: 0.07,
0.25 and 0.8 ms with the softmax. (`cumsum` over whole rows takes 2.5 and 9 ms.)

The distribution is that of the probabilities in float32, and a token of probability 0 is never
drawn. A token is drawn with the generator of its request where that has a seed, as in vLLM; the
token of a seed is not the one of vLLM's noise, and where another batch rounds the logits otherwise,
a seeded answer changes sooner than there: each token's share moves the ones after it. Drafts have
no seed there and here.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from paceline.runtime.engine.compat.wrapping import Wrappers

logger = logging.getLogger("vllm.paceline.cpu_draws")

_BLOCK = 128
"""Tokens; divides the vocabularies of most models. Chosen empirically."""
_GREEDY_BELOW = 1e-5
"""vLLM's `_SAMPLING_EPS`: the temperature below which a request is greedy."""


def draw_by_cumulation(weights: Any, uniform: Any, otherwise: Any = None) -> Any:
    """An index per row, drawn in proportion to `weights`, (num_rows, num_tokens), which need not
    add up to 1. `uniform` is (num_rows,), each in [0, 1).

    A row of `weights` without any weight, or with NaN, is drawn from the row of `otherwise`
    instead. Without that, or where it has none either, it gives the last index.
    """
    import torch

    num_tokens = weights.shape[1]
    if num_tokens % _BLOCK:
        weights = torch.nn.functional.pad(weights, (0, -num_tokens % _BLOCK))
    blocks = weights.unflatten(1, (-1, _BLOCK))
    of_blocks = blocks.sum(dim=-1).double()
    cumulated = of_blocks.cumsum(dim=-1)
    if otherwise is not None:
        rows = (~(cumulated[:, -1] > 0)).nonzero().squeeze(1)
        if len(rows):
            if cumulated[rows, -1].isnan().any():
                logger.warning("probabilities with NaN: tokens are drawn by the target's own")
            drawn = draw_by_cumulation(weights, uniform)
            drawn[rows] = draw_by_cumulation(otherwise[rows], uniform[rows])
            return drawn
    bounds = uniform.unsqueeze(1) * cumulated[:, -1:]
    block = torch.searchsorted(cumulated, bounds, right=True).clamp_(max=cumulated.shape[1] - 1)
    before = cumulated.gather(1, block) - of_blocks.gather(1, block)
    inside = blocks[torch.arange(len(blocks)), block.squeeze(1)].double().cumsum(dim=-1)
    # Rounding must not lead past the last token of the block that has weight, or before the first.
    largest = torch.nextafter(inside[:, -1:], torch.zeros((), dtype=torch.float64))
    bounds = (bounds - before).clamp_(min=0.0).minimum(largest)
    index = block * _BLOCK + torch.searchsorted(inside, bounds, right=True)
    return index.squeeze(1).clamp_(max=num_tokens - 1)


def _sample(
    stock: Any, sampler: Any, logits: Any, generators: Mapping[int, Any], k: Any, p: Any
) -> Any:
    """Tokens (num_requests,) of logits (num_requests, vocab_size), and None: no processed logits
    are wanted."""
    import torch
    from vllm.v1.sample.ops import topk_topp_sampler

    if sampler.use_fp64_gumbel or sampler.logprobs_mode.startswith("processed"):
        return stock(sampler, logits, generators, k, p)
    logits = topk_topp_sampler.apply_top_k_top_p(logits, k, p)
    probs = logits.softmax(dim=-1, dtype=torch.float32)
    token_ids = draw_by_cumulation(probs, _uniform_numbers(len(logits), generators))
    is_wrong = probs[:, 0].isnan()  # then all of the row are: a logit was NaN or infinite
    if is_wrong.any():
        logger.warning("logits with NaN or infinity: their likeliest token is taken")
        token_ids[is_wrong] = logits[is_wrong].argmax(dim=-1)
    return token_ids, None


def _uniform_numbers(num_rows: int, generators: Mapping[int, Any]) -> Any:
    """Numbers in [0, 1), (num_rows,), by the generators of rows that have one."""
    import torch

    uniform = torch.rand(num_rows, dtype=torch.float64)
    for row, generator in generators.items():
        uniform[row] = torch.rand((), dtype=torch.float64, generator=generator)
    return uniform


def _draw_drafts(
    stock: Any, logits: Any, sampling_metadata: Any, use_fp64_gumbel: bool = False
) -> Any:
    """Tokens (num_requests,) and the probabilities they were drawn from; see the module."""
    import torch

    if sampling_metadata.all_greedy or use_fp64_gumbel:
        return stock(logits, sampling_metadata, use_fp64_gumbel)
    temperature, is_greedy = sampling_metadata.temperature, None
    if not sampling_metadata.all_random:
        is_greedy = temperature < _GREEDY_BELOW
        temperature = torch.where(is_greedy, 1.0, temperature)
    probs = logits.div_(temperature.view(-1, 1)).softmax(dim=-1, dtype=torch.float32)
    token_ids = draw_by_cumulation(probs, _uniform_numbers(len(probs), {}))
    if is_greedy is not None:
        token_ids = torch.where(is_greedy, probs.argmax(dim=-1), token_ids)
    return token_ids, probs


def _draw_recovered(
    stock: Any,
    max_spec_len: int,
    num_draft_tokens: list[int],
    cu_num_draft_tokens: Any,
    draft_token_ids: Any,
    draft_probs: Any,
    target_probs: Any,
    sampling_metadata: Any,
    device: Any,
    use_fp64_gumbel: bool = False,
) -> Any:
    """The token that replaces each draft if it is rejected, (num_draft_tokens,).

    Without `draft_probs` the draft has all of the draft's probability.
    """
    import torch

    if use_fp64_gumbel:
        return stock(
            max_spec_len,
            num_draft_tokens,
            cu_num_draft_tokens,
            draft_token_ids,
            draft_probs,
            target_probs,
            sampling_metadata,
            device,
            use_fp64_gumbel,
        )
    # Without drafts a request's generator stays as it is, as in vLLM.
    used = {row: one for row, one in sampling_metadata.generators.items() if num_draft_tokens[row]}
    uniform = _uniform_numbers(len(num_draft_tokens), used)
    if draft_probs is None:
        weights = target_probs.clone()
        rows = (draft_token_ids >= 0).nonzero().squeeze(1)  # a padded draft, -1, excludes no token
        weights[rows, draft_token_ids[rows].long()] = 0.0
    else:
        weights = (target_probs - draft_probs).clamp_(min=0)
    counts = torch.tensor(num_draft_tokens)
    # Without any weight the target's and the draft's distribution are equal, up to rounding.
    drawn = draw_by_cumulation(weights, uniform.repeat_interleave(counts), target_probs)
    return drawn.to(draft_token_ids.dtype)


WRAPPERS = Wrappers(
    "cpu_draws",
    {
        "vllm.v1.spec_decode.llm_base_proposer:compute_probs_and_sample_next_token": _draw_drafts,
        "vllm.v1.sample.rejection_sampler:sample_recovered_tokens": _draw_recovered,
        "vllm.v1.sample.ops.topk_topp_sampler:TopKTopPSampler.forward_cpu": _sample,
    },
    name="the fast drawing of tokens on CPUs",
)
