"""Which fields may a client send to the engine, and which values may they have?

An allow-list as data. vLLM ignores fields that it does not know, and some that it knows give a
client power over the engine or over other clients; both are refused by name. The bounds keep out
values that the engine would only trip over in its own process (integers past 32 bits, a
temperature that overflows); finer checks are left to the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

Check = Callable[[object], str | None]
"""None when the value is fine, else what is allowed, to follow "<name> must be "."""

_INT32_MAX = 2**31 - 1
_MAX_SCHEMA_BYTES = 64 * 1024
"""Chosen by hand: grammars are compiled by the engine, in time that grows with their size. All
tools of a request share it, because a forced call becomes one grammar of them all."""
_MAX_TOOLS = 512


def integer(low: int, high: int) -> Check:
    def check(value: object) -> str | None:
        if type(value) is int and low <= value <= high:
            return None
        return f"an integer from {low} to {high}"

    return check


def number(low: float, high: float) -> Check:
    def check(value: object) -> str | None:
        if type(value) in (int, float) and low <= value <= high:  # type: ignore[operator]
            return None
        return f"a number from {low:g} to {high:g}"

    return check


def boolean(value: object) -> str | None:
    return None if isinstance(value, bool) else "true or false"


def text(max_chars: int) -> Check:
    def check(value: object) -> str | None:
        if isinstance(value, str) and len(value) <= max_chars:
            return None
        return f"a string of at most {max_chars} characters"

    return check


def texts(max_items: int, max_chars: int) -> Check:
    def check(value: object) -> str | None:
        if (
            isinstance(value, list)
            and len(value) <= max_items
            and all(isinstance(item, str) and 0 < len(item) <= max_chars for item in value)
        ):
            return None
        return f"a list of at most {max_items} strings of 1 to {max_chars} characters"

    return check


def token_ids(max_items: int) -> Check:
    def check(value: object) -> str | None:
        if (
            isinstance(value, list)
            and len(value) <= max_items
            and all(type(item) is int and 0 <= item <= _INT32_MAX for item in value)
        ):
            return None
        return f"a list of at most {max_items} token ids"

    return check


def stop(value: object) -> str | None:
    if texts(16, 512)(value) is None or (isinstance(value, str) and 0 < len(value) <= 512):
        return None
    return "a string or a list of at most 16 strings, each of 1 to 512 characters"


def mapping(max_entries: int) -> Check:
    def check(value: object) -> str | None:
        if isinstance(value, dict) and len(value) <= max_entries:
            return None
        return f"an object with at most {max_entries} entries"

    return check


def schema(value: object) -> str | None:
    if isinstance(value, dict) and len(msgspec.json.encode(value)) <= _MAX_SCHEMA_BYTES:
        return None
    return f"an object of at most {_MAX_SCHEMA_BYTES} bytes"


def tools(value: object) -> str | None:
    if (
        isinstance(value, list)
        and len(value) <= _MAX_TOOLS
        and all(isinstance(item, dict) for item in value)
        and len(msgspec.json.encode(value)) <= _MAX_SCHEMA_BYTES
    ):
        return None
    return f"a list of at most {_MAX_TOOLS} objects, {_MAX_SCHEMA_BYTES} bytes in all"


def tool_choice(value: object) -> str | None:
    if value in ("none", "auto", "required") or schema(value) is None:
        return None
    return f"none, auto, required, or an object of at most {_MAX_SCHEMA_BYTES} bytes"


def anything(value: object) -> str | None:
    return None


_COMMON: Mapping[str, Check] = {
    # read by the gateway itself, see `checks`
    "model": text(500),
    "stream": boolean,
    # OpenAI's, acted on by the engine
    "frequency_penalty": number(-2, 2),
    "presence_penalty": number(-2, 2),
    "logit_bias": mapping(1024),
    "max_tokens": integer(0, _INT32_MAX),
    "response_format": schema,
    "seed": integer(-(2**63), 2**63 - 1),
    "stop": stop,
    "stream_options": mapping(8),
    "temperature": number(0, 100),
    "top_p": number(0, 1),
    # OpenAI's, without effect in the engine and harmless
    "user": text(1000),
    "metadata": mapping(64),
    "store": boolean,
    "service_tier": text(100),
    "safety_identifier": text(1000),
    "prompt_cache_key": text(1000),
    "prompt_cache_retention": text(100),
    # vLLM's
    "top_k": integer(-1, _INT32_MAX),
    "min_p": number(0, 1),
    "repetition_penalty": number(0.01, 100),
    "length_penalty": number(-100, 100),
    "stop_token_ids": token_ids(1024),
    "allowed_token_ids": token_ids(1_000_000),
    "bad_words": texts(256, 256),
    "include_stop_str_in_output": boolean,
    "min_tokens": integer(0, _INT32_MAX),
    "skip_special_tokens": boolean,
    "spaces_between_special_tokens": boolean,
    "truncate_prompt_tokens": integer(-1, _INT32_MAX),
    "truncation_side": text(10),
    "add_special_tokens": boolean,
    "echo": boolean,
    "structured_outputs": schema,
    "return_tokens_as_token_ids": boolean,
    "return_token_ids": boolean,
    "thinking_token_budget": integer(-1, _INT32_MAX),
    "stream_interval": integer(1, 10_000),
}

CHAT_FIELDS: Mapping[str, Check] = {
    **_COMMON,
    "messages": anything,  # checked in `checks`
    "max_completion_tokens": integer(1, _INT32_MAX),
    "max_tokens": integer(1, _INT32_MAX),
    "logprobs": boolean,
    "top_logprobs": integer(0, 20),
    "tools": tools,
    "tool_choice": tool_choice,
    "parallel_tool_calls": boolean,
    "reasoning_effort": text(20),
    "include_reasoning": boolean,
    "verbosity": text(20),
    "modalities": texts(1, 10),
    "prediction": mapping(8),
    "add_generation_prompt": boolean,
    "continue_final_message": boolean,
}

COMPLETION_FIELDS: Mapping[str, Check] = {
    **_COMMON,
    "prompt": anything,  # checked in `checks`
    "logprobs": integer(0, 20),
    "suffix": text(1_000_000),
    "best_of": integer(1, 1),
}

_REFUSED: Mapping[str, str] = {
    "cache_salt": "it reaches into the prefix cache of other clients",
    "priority": "it lets one client overtake the others",
    "kv_transfer_params": "it makes the engine open connections",
    "ec_transfer_params": "it makes the engine open connections",
    "vllm_xargs": "it reaches internals of the engine",
    "mm_processor_kwargs": "it reaches internals of the engine",
    "media_io_kwargs": "it reaches internals of the engine",
    "chat_template": "templates are programs",
    "chat_template_kwargs": "templates are programs",
    "prompt_logprobs": "it makes the engine hold scores for every prompt token",
    "prompt_embeds": "embeddings are unpickled by the engine",
    "logprob_token_ids": "the engine fails on it",  # vLLM 0.32: a 500, "list index out of range"
    "ignore_eos": "it keeps the engine busy past the end of the answer",
    "use_beam_search": "it bypasses the scheduler",
    "request_id": "send it as the header x-request-id",
    "functions": "the engine ignores it; use tools",
    "function_call": "the engine ignores it; use tool_choice",
}


def refusal_reason(name: str) -> str:
    """Why a field that is in neither table is refused."""
    if name.startswith("guided_"):
        return "the engine no longer knows it and would ignore it; use structured_outputs"
    return _REFUSED.get(name, "it is not a field of this request")
