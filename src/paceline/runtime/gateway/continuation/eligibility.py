"""Decide whether a request's stream can be continued on another replica, token for token.

An allow-list: a field that is not known to survive continuation makes the request ineligible. State
of the lost engine that the token ids do not contain cannot be rebuilt: a grammar in progress,
counts of output tokens alone (presence and frequency penalty: the other engine treats the answer so
far as prompt), log-probabilities, several choices. Counts over prompt and answer together
(repetition penalty) stay correct.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SURVIVES = frozenset(
    {
        # sampling that looks at the next token alone, or at prompt and answer alike
        "temperature", "top_p", "top_k", "min_p", "seed", "logit_bias", "allowed_token_ids",
        "repetition_penalty", "stop_token_ids", "ignore_eos",
        # where the answer ends
        "max_tokens", "max_completion_tokens", "min_tokens", "stop", "include_stop_str_in_output",
        # the prompt, and the form of the answer
        "model", "messages", "prompt", "stream", "stream_options", "return_token_ids",
        "add_generation_prompt", "continue_final_message", "add_special_tokens",
        "truncate_prompt_tokens", "truncation_side", "stream_interval", "parallel_tool_calls",
        # without effect on the tokens
        "user", "metadata", "client_metadata", "store", "service_tier", "safety_identifier",
        "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options",
        "return_tokens_as_token_ids", "length_penalty", "cache_salt",
        # the gateway sends it to every replica
        "speculation",
    }
)  # fmt: skip

_HARMLESS: Mapping[str, tuple[object, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "echo": (False,),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "tools": ([],),
    "tool_choice": ("none",),
    "response_format": ({"type": "text"},),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "use_beam_search": (False,),
    "suffix": ("",),
    "bad_words": ([],),
    "include_reasoning": (True,),
}
"""Values with which a field that does not survive has no effect."""


def why_not_continued(request: Mapping[str, Any]) -> str | None:
    """None when the stream can be continued, else the reason in a few words.

    `request` is the decoded body of a chat or completions request that passed the checks.
    """
    for name, value in request.items():
        if value is None or name in _SURVIVES:
            continue
        if not any(_is_same(value, harmless) for harmless in _HARMLESS.get(name, ())):
            return f"{name} cannot be carried over"
    if request.get("stop") and request.get("min_tokens"):
        return "stop together with min_tokens cannot be carried over"
    prompt = request.get("prompt")
    if isinstance(prompt, list) and prompt and not isinstance(prompt[0], int):
        return "a list of prompts has several answers"
    return None


def _is_same(value: object, harmless: object) -> bool:
    """Equal, and not merely 1 for True or 0.0 for an empty list; 0 and 0.0 are the same."""
    return value == harmless and isinstance(value, bool) == isinstance(harmless, bool)
