"""The allow-list of request fields: the fields and values that clients may send on each route.

vLLM ignores fields that it does not know, and some that it knows give a client power over the
engine or over other clients; both kinds are refused by name. The bounds exclude values that would
fail inside the engine (integers past 32 bits, a temperature that overflows); the engine makes the
finer checks.
"""

from __future__ import annotations

from collections.abc import Mapping

from paceline.runtime.gateway.requests import draft_cap, prompts, tools
from paceline.runtime.gateway.requests.field_checks import (
    INT32_MAX,
    Check,
    boolean,
    integer,
    mapping,
    never,
    number,
    one_of,
    schema,
    stop,
    text,
    texts,
    token_ids,
    tool_choice,
    whole_number,
)

_BEST_OF = Check(
    lambda value: whole_number(value) == 1,
    "1: no engine here ranks answers; use n for several answers",
    {"type": "integer", "enum": [1]},
)

_ALL: Mapping[str, Check] = {
    "model": text(500),  # the gateway reads it too, see `validation`
    # OpenAI's, without effect in the engine and harmless
    "user": text(1000),
}

_GENERATION: Mapping[str, Check] = {
    **_ALL,
    # the gateway reads it too, see `validation`
    "stream": boolean,
    # OpenAI's, acted on by the engine
    "frequency_penalty": number(-2, 2),
    "presence_penalty": number(-2, 2),
    "logit_bias": mapping(1024),
    "seed": integer(-(2**63), 2**63 - 1),
    "stop": stop,
    "stream_options": mapping(8),
    "temperature": number(0, 100),
    "top_p": number(0, 1),
    # OpenAI's, without effect in the engine and harmless
    "metadata": mapping(64),
    "store": boolean,
    "service_tier": text(100),
    "safety_identifier": text(1000),
    "prompt_cache_key": text(1000),
    "prompt_cache_retention": text(100),
    "prompt_cache_options": mapping(64),
    "client_metadata": mapping(64),  # an agent's own, for its service's statistics
    # vLLM's
    "top_k": integer(-1, INT32_MAX),
    "min_p": number(0, 1),
    "repetition_penalty": number(0.01, 100),
    "stop_token_ids": token_ids(1024),
    "include_stop_str_in_output": boolean,
    "skip_special_tokens": boolean,
    "structured_outputs": schema,
    # the gateway's own
    draft_cap.FIELD: draft_cap.SPECULATION,
}

_CHOICES: Mapping[str, Check] = {
    **_GENERATION,
    "n": integer(1, 128),  # OpenAI's bound; `validation` uses the operator's
    "max_tokens": integer(0, INT32_MAX),
    "response_format": schema,
    # vLLM's
    "length_penalty": number(-100, 100),
    "allowed_token_ids": token_ids(1_000_000),
    "bad_words": texts(256, 256),
    "min_tokens": integer(0, INT32_MAX),
    "spaces_between_special_tokens": boolean,
    "truncate_prompt_tokens": integer(-1, INT32_MAX),
    "truncation_side": text(10),
    "add_special_tokens": boolean,
    "echo": boolean,
    "return_tokens_as_token_ids": boolean,
    "return_token_ids": boolean,
    "thinking_token_budget": integer(-1, INT32_MAX),
    "stream_interval": integer(1, 10_000),
}

CHAT_FIELDS: Mapping[str, Check] = {
    **_CHOICES,
    "messages": prompts.MESSAGES,
    "max_completion_tokens": integer(1, INT32_MAX),
    "max_tokens": integer(1, INT32_MAX),
    "logprobs": boolean,
    "top_logprobs": integer(0, 20),
    tools.FIELD: tools.tool_list(tools.CHAT_TOOLS),
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
    **_CHOICES,
    "prompt": prompts.PROMPT,
    "logprobs": integer(0, 20),
    "suffix": text(1_000_000),
    "best_of": _BEST_OF,
}

RESPONSES_FIELDS: Mapping[str, Check] = {
    **_GENERATION,
    "input": prompts.RESPONSE_INPUT,
    "instructions": prompts.INSTRUCTIONS,
    "max_output_tokens": integer(1, INT32_MAX),
    "max_tool_calls": integer(1, 1000),
    "text": schema,  # holds the JSON schema of the answer
    tools.FIELD: tools.tool_list(tools.RESPONSES_TOOLS),
    "tool_choice": tool_choice,
    "parallel_tool_calls": boolean,
    "top_logprobs": integer(0, 20),
    "include": texts(16, 100),
    "reasoning": mapping(8),
    "include_reasoning": boolean,
    "truncation": one_of("auto", "disabled"),
    "background": never,
}

EMBEDDING_FIELDS: Mapping[str, Check] = {
    **_ALL,
    "input": prompts.EMBEDDING_INPUT,
    "encoding_format": one_of("float", "base64"),  # vLLM's other formats are not JSON
    "dimensions": integer(1, INT32_MAX),
    # vLLM's
    "embed_dtype": text(20),
    "endianness": text(10),
    "use_activation": boolean,
    "truncate_prompt_tokens": integer(-1, INT32_MAX),
    "truncation_side": text(10),
    "add_special_tokens": boolean,
}

_REFUSED: Mapping[str, str] = {
    "cache_salt": "it gives access to the prefix cache of other clients",
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
    "previous_response_id": "answers are not kept; send the conversation in input",
    "conversation": "conversations are not kept; send the conversation in input",
}


def refusal_reason(name: str) -> str:
    """Why a field that is not in the route's table is refused."""
    if name.startswith("guided_"):
        return "the engine no longer knows it and would ignore it; use structured_outputs"
    return _REFUSED.get(name, "it is not a field of this request")
