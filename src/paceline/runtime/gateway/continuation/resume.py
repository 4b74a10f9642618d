"""Build the request with which another replica continues a stream.

It is a completions request whose prompt is token ids: those of the prompt and those of the answer
so far. A chat is continued in this way too, so that the template is not applied again.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

PATH = "/v1/completions"

_COMPLETIONS_DEFAULT_TOKENS = 16
"""`max_tokens` of the completions route by default, in OpenAI's API and in vLLM."""

_CARRIED = (
    "model", "temperature", "top_p", "top_k", "min_p", "logit_bias", "allowed_token_ids",
    "repetition_penalty", "stop_token_ids", "ignore_eos", "include_stop_str_in_output", "user",
    "cache_salt",
)  # fmt: skip

_SEED_STEP = 0x9E3779B97F4A7C15
"""2^64 divided by the golden ratio: seeds of successive resume points are far apart."""


def tokens_left(
    request: Mapping[str, Any], *, num_prompt: int, num_emitted: int, max_model_len: int | None
) -> int | None:
    """How many tokens the answer may still have; None when nothing limits it."""
    limits = []
    max_tokens = request.get("max_completion_tokens") or request.get("max_tokens")
    if max_tokens is None and "messages" not in request:
        max_tokens = _COMPLETIONS_DEFAULT_TOKENS
    if max_tokens is not None:
        limits.append(max_tokens - num_emitted)
    if max_model_len is not None:
        limits.append(max_model_len - num_prompt - num_emitted)
    return min(limits) if limits else None


def resume_body(
    request: Mapping[str, Any],
    prompt_ids: Sequence[int],
    emitted_ids: Sequence[int],
    max_tokens: int,
    extra: Mapping[str, Any],
) -> bytes:
    """The body. `extra` are fields of the gateway's own, such as the tenant's cache salt.

    The seed is changed by the number of tokens: with the same seed the random numbers of the first
    tokens would be drawn again. Stop strings are left out: the gateway applies them, see
    `stop_strings`. The usage is asked for in case the replica reports no token ids.
    """
    body: dict[str, Any] = {
        name: request[name] for name in _CARRIED if request.get(name) is not None
    }
    num_emitted = len(emitted_ids)
    if request.get("seed") is not None:
        body["seed"] = (request["seed"] + num_emitted * _SEED_STEP) % 2**63
    if request.get("min_tokens"):
        body["min_tokens"] = min(max(request["min_tokens"] - num_emitted, 0), max_tokens)
    options = request.get("stream_options") or {}
    is_continuous = bool(options.get("continuous_usage_stats"))
    prompt = array("I", prompt_ids)
    prompt.extend(emitted_ids)
    body |= {
        "prompt": prompt.tolist(),
        "max_tokens": max_tokens,
        "stream": True,
        "return_token_ids": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": is_continuous},
        **extra,
    }
    return msgspec.json.encode(body)
