"""May this request go to an engine?

Decisions from the body's bytes to a `CheckedRequest` or a `Refusal`; no I/O. The body itself goes
on unchanged, so nothing is rewritten here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paceline.gateway.errors import Refusal, context_length_exceeded, invalid
from paceline.gateway.fields import CHAT_FIELDS, COMPLETION_FIELDS, Check, integer, refusal_reason
from paceline.gateway.keys.ring import Tenant, granted_to
from paceline.gateway.settings import GatewaySettings
from paceline.gateway.strict_json import parse_object

MAX_TOKEN_CHARS = 1024
"""No token of the vocabularies in use is longer (the longest known are runs of a few hundred
blanks), so a prompt has at least its characters / 1024 tokens. Chosen by hand, far on the safe
side: it refuses only what cannot fit, the engine refuses the rest exactly."""

_TEXT_PARTS = frozenset({"text", "refusal", "thinking", "input_text", "output_text"})
_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Route:
    """One route for answers, the same here and at the engine."""

    path: str
    prompt_param: str
    fields: Mapping[str, Check]


CHAT = Route("/v1/chat/completions", "messages", CHAT_FIELDS)
COMPLETIONS = Route("/v1/completions", "prompt", COMPLETION_FIELDS)


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """What the gateway needs to know of a request that it lets pass."""

    route: Route
    body: bytes
    model: str
    is_stream: bool
    num_choices: int
    """Answers asked for, over all prompts."""
    min_prompt_tokens: int
    """The longest prompt has at least so many tokens, whatever the tokenizer."""
    fields: frozenset[str]
    """Names of the fields sent with a value."""
    parsed: Mapping[str, Any] = field(repr=False)
    """The body as decoded. Nobody may change it."""


def check_request(
    route: Route, body: bytes, settings: GatewaySettings, tenant: Tenant | None = None
) -> CheckedRequest:
    """Read the body and refuse what the engine should not see of this tenant."""
    request = parse_object(body, settings.max_json_depth, settings.max_json_keys)
    granted = granted_to(tenant, settings.granted_fields)
    for name, value in request.items():
        if name not in granted:
            _check_field(route, name, value, settings)
    if "prompt_logprobs" not in granted:
        _refuse_hidden_prompt_logprobs(route, request)
    model = request.get("model")
    if not isinstance(model, str):
        raise invalid("model is missing; name one of those that GET /v1/models lists.", "model")
    choices = request.get("n")
    num_choices = choices if isinstance(choices, int) else 1
    if route is CHAT:
        num_prompts, min_tokens = 1, _check_messages(request.get("messages"))
    else:
        num_prompts, min_tokens = _check_prompt(request.get("prompt"), settings.max_prompts)
    if request.get("truncate_prompt_tokens") is not None:
        min_tokens = 0
    return CheckedRequest(
        route=route,
        body=body,
        model=model,
        is_stream=request.get("stream") is True,
        num_choices=num_choices * num_prompts,
        min_prompt_tokens=min_tokens,
        fields=frozenset(name for name, value in request.items() if value),
        parsed=request,
    )


def check_context(request: CheckedRequest, max_model_len: int | None) -> None:
    """Refuse a prompt that cannot fit, without asking the engine."""
    if max_model_len is not None and request.min_prompt_tokens > max_model_len:
        raise Refusal(
            context_length_exceeded(
                f"This model's maximum context length is {max_model_len} tokens. The prompt has "
                f"at least {request.min_prompt_tokens}; shorten it.",
                request.route.prompt_param,
            )
        )


def _check_field(route: Route, name: str, value: object, settings: GatewaySettings) -> None:
    if value is None:
        return
    check = integer(1, settings.max_choices) if name == "n" else route.fields.get(name)
    if check is None:
        shown = name[:100]
        raise invalid(
            f"{shown!r} is not allowed: {refusal_reason(name)}. Leave it out, or have the operator "
            "grant it (granted_fields).",
            shown,
            code="unsupported_parameter",
        )
    allowed = check(value)
    if allowed is not None:
        raise invalid(f"{name} must be {allowed}; got {_shown(value)}.", name)


def _refuse_hidden_prompt_logprobs(route: Route, request: Mapping[str, Any]) -> None:
    """vLLM scores the prompt for `echo` too: in a chat always, else when `logprobs` is given."""
    if request.get("echo") and (route is CHAT or request.get("logprobs") is not None):
        asked = "echo in a chat" if route is CHAT else "echo together with logprobs"
        raise invalid(
            f"{asked} is not allowed: {refusal_reason('prompt_logprobs')}. Leave echo out, or have "
            "the operator grant prompt_logprobs (granted_fields).",
            "echo",
            code="unsupported_parameter",
        )


def _check_messages(messages: object) -> int:
    """The least number of tokens in a chat; refuses what is not a chat in text."""
    if not isinstance(messages, list) or not messages:
        raise invalid(
            f"messages must be a list with a message; got {_shown(messages)}.", "messages"
        )
    num_chars = 0
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if not isinstance(message, dict):
            raise invalid(f"{where} must be an object; got {_shown(message)}.", where)
        if not isinstance(message.get("role"), str):
            raise invalid(
                f"{where}.role must be a string; got {_shown(message.get('role'))}.",
                f"{where}.role",
            )
        num_chars += _check_content(message.get("content"), f"{where}.content")
    return num_chars // MAX_TOKEN_CHARS


def _check_content(content: object, where: str) -> int:
    """Characters of one message's content."""
    if content is None:
        return 0
    if isinstance(content, str):
        return len(content)
    if not isinstance(content, list):
        raise invalid(
            f"{where} must be a string, null or a list of text parts; got {_shown(content)}.", where
        )
    num_chars = 0
    for index, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if not isinstance(part, dict) or kind not in _TEXT_PARTS:
            raise invalid(
                f"{where}[{index}] must be a part of type text; images, audio, video and files "
                "are not accepted here.",
                f"{where}[{index}]",
                code="unsupported_content",
            )
        value = part.get("text")
        num_chars += len(value) if isinstance(value, str) else 0
    return num_chars


def _check_prompt(prompt: object, max_prompts: int) -> tuple[int, int]:
    """(number of prompts, least number of tokens in the longest one)."""
    if isinstance(prompt, str):
        return 1, len(prompt) // MAX_TOKEN_CHARS
    if isinstance(prompt, list) and prompt:
        if isinstance(prompt[0], int):
            return 1, _count_token_ids(prompt)
        if len(prompt) > max_prompts:
            raise invalid(
                f"prompt has {len(prompt)} entries; at most {max_prompts} are allowed.", "prompt"
            )
        if all(isinstance(item, str) for item in prompt):
            return len(prompt), max(map(len, prompt)) // MAX_TOKEN_CHARS
        if all(isinstance(item, list) and item for item in prompt):
            return len(prompt), max(map(_count_token_ids, prompt))
    raise invalid(
        "prompt must be a string, a list of strings, a list of token ids or a list of such lists; "
        f"got {_shown(prompt)}.",
        "prompt",
    )


def _count_token_ids(ids: Sequence[Any]) -> int:
    if all(type(item) is int and 0 <= item <= _INT32_MAX for item in ids):
        return len(ids)
    raise invalid(f"prompt has an entry that is no token id (0 to {_INT32_MAX}).", "prompt")


def _shown(value: object) -> str:
    """A short form of a refused value."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an empty list" if not value else f"a list of {len(value)}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return repr(value) if len(value) <= 40 else f"a string of {len(value)} characters"
    shown = repr(value)
    return shown if len(shown) <= 40 else "a number out of range"
