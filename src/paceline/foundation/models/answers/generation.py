"""Generate the target's answers to a batch of prompts with a KV cache.

Pure transformers: nothing of the model's own generation settings applies (penalties, top-k), so the
distribution is the one that the caller names.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import torch

from paceline.foundation.models.interruption import StopRequest
from paceline.foundation.models.sampling import draw_tokens
from paceline.foundation.models.values import Answer, EncodedPrompt, Sampling


@torch.inference_mode()
def generate_answers(
    model: Any,
    prompts: Sequence[EncodedPrompt],
    sampling: Sampling,
    *,
    stop_ids: AbstractSet[int],
    num_after_end: int,
    seed: int,
    stop: StopRequest,
) -> list[Answer]:
    """One answer per prompt, each continued for `num_after_end` tokens after its end.

    An answer ends with the first stop token, or at the prompt's limit. The same batch and seed give
    the same answers. Rows that are complete leave the batch once they are half of it. Raises
    Interrupted between two tokens; the batch is lost then.
    """
    from transformers import DynamicCache

    generator = torch.Generator(model.device).manual_seed(seed)
    token_ids, mask = _left_padded(prompts, model.device)
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
    cache = DynamicCache(config=model.config)
    texts: list[list[int]] = [[] for _ in prompts]
    ends = [prompt.max_tokens for prompt in prompts]
    rows = list(range(len(prompts)))
    while rows:
        stop.raise_if_set()
        logits = model(
            input_ids=token_ids,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits[:, -1]
        drawn = draw_tokens(logits, sampling, generator)
        for row, token in zip(rows, drawn.tolist(), strict=True):
            texts[row].append(token)
            if token in stop_ids and len(texts[row]) < ends[row]:
                ends[row] = len(texts[row])
        left = [i for i, row in enumerate(rows) if len(texts[row]) < ends[row] + num_after_end]
        if len(left) <= len(rows) // 2:
            rows = [rows[i] for i in left]
            kept = torch.tensor(left, dtype=torch.long, device=model.device)
            drawn, mask, positions = drawn[kept], mask[kept], positions[kept]
            cache.batch_select_indices(kept)
        token_ids = drawn.unsqueeze(1)
        mask = torch.cat((mask, torch.ones_like(token_ids)), dim=1)
        positions = positions[:, -1:] + 1
    return [
        prompt.answered(sampling, text[: end + num_after_end], end)
        for prompt, text, end in zip(prompts, texts, ends, strict=True)
    ]


def _left_padded(
    prompts: Sequence[EncodedPrompt], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and attention mask, both (num_prompts, longest prompt)."""
    longest = max(len(prompt.token_ids) for prompt in prompts)
    token_ids = torch.zeros(len(prompts), longest, dtype=torch.long)
    mask = torch.zeros(len(prompts), longest, dtype=torch.long)
    for row, prompt in enumerate(prompts):
        start = longest - len(prompt.token_ids)
        token_ids[row, start:] = torch.tensor(prompt.token_ids)
        mask[row, start:] = 1
    return token_ids.to(device), mask.to(device)
