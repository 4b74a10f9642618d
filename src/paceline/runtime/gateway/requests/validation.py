"""Check a request's body: from its bytes to a `CheckedRequest` or a `Refusal`, without I/O.

The body is sent to the engine as it came, so nothing is rewritten here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from paceline.foundation.command_line.near_names import nearest
from paceline.runtime.gateway.http.errors import Refusal, context_length_exceeded, invalid, shown
from paceline.runtime.gateway.http.strict_json import parse_object
from paceline.runtime.gateway.keys.ring import Tenant, granted_to
from paceline.runtime.gateway.requests.field_checks import integer, with_whole_numbers
from paceline.runtime.gateway.requests.fields import refusal_reason
from paceline.runtime.gateway.requests.needs import Needs, needs_of
from paceline.runtime.gateway.requests.routes import CHAT, Route
from paceline.runtime.gateway.requests.tools import check_tools
from paceline.runtime.gateway.settings import GatewaySettings

_MIN_SIMILARITY = 0.85
"""Of two field names, by `difflib`: max_token and max_tokens have 0.95. Chosen empirically."""


@dataclass(frozen=True, slots=True)
class CheckedRequest:
    """A request that passed the checks, with what the gateway needs to know of it."""

    route: Route
    body: bytes
    model: str
    is_stream: bool
    num_choices: int
    """Requested answers, over all prompts."""
    num_prompts: int
    """Prompts in the request; each is answered separately."""
    min_prompt_tokens: int
    """The longest prompt has at least this many tokens, with any tokenizer."""
    num_prompt_tokens: int
    """Tokens of all prompts: exact for token ids, estimated for text."""
    fields: frozenset[str]
    """Names of the fields with a value other than null, false, 0 or empty."""
    needs: Needs
    """What a replica must be able to do."""
    parsed: Mapping[str, Any] = field(repr=False)
    """The decoded body, with integers for numbers such as 8.0. Must not be mutated."""


def check_request(
    route: Route,
    body: bytes,
    settings: GatewaySettings,
    tenant: Tenant | None = None,
    num_keys: int | None = None,
) -> CheckedRequest:
    """Parse the body and refuse what this tenant may not send to an engine.

    `num_keys` is the count made while the body was read, see `parse_object`.
    """
    request = parse_object(body, settings.json_limits, num_keys)
    granted = granted_to(tenant, settings.granted_fields)
    for name, value in request.items():
        request[name] = value = with_whole_numbers(value)
        if name not in granted:
            _check_field(route, name, value, settings)
    if route.tool_kinds and "tools" not in granted:
        check_tools(request, route.tool_kinds, has_level=route is CHAT)
    if "prompt_logprobs" not in granted:
        _refuse_hidden_prompt_logprobs(route, request)
    model = request.get("model")
    if not isinstance(model, str):
        raise invalid("model is missing; name one of those that GET /v1/models lists.", "model")
    choices = request.get("n")
    num_choices = choices if isinstance(choices, int) else 1
    size = route.read_prompt(request)
    min_tokens = size.min_tokens
    if request.get("truncate_prompt_tokens") is not None or request.get("truncation") == "auto":
        min_tokens = 0
    return CheckedRequest(
        route=route,
        body=body,
        model=model,
        is_stream=request.get("stream") is True,
        num_choices=num_choices * size.num_prompts,
        num_prompts=size.num_prompts,
        min_prompt_tokens=min_tokens,
        num_prompt_tokens=size.num_tokens,
        fields=frozenset(name for name, value in request.items() if value),
        needs=needs_of(request, num_choices),
        parsed=request,
    )


def check_context(request: CheckedRequest, max_model_len: int | None) -> None:
    """Refuse a prompt that cannot fit into any replica's context, without asking an engine."""
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
    check = route.fields.get(name)
    if name == "n" and check is not None:
        check = integer(1, settings.max_choices)
    if check is None:
        shown_name = name[:100]
        similar = nearest(shown_name, route.fields, _MIN_SIMILARITY)
        what_to_do = (
            f"Did you mean {similar!r}?"
            if similar
            else "Leave it out, or have the operator grant it (server.granted_fields)."
        )
        raise invalid(
            f"{shown_name!r} is not allowed: {refusal_reason(name)}. {what_to_do}",
            shown_name,
            code="unsupported_parameter",
        )
    allowed = check(value)
    if allowed is not None:
        raise invalid(f"{name} must be {allowed}; got {shown(value)}.", name)


def _refuse_hidden_prompt_logprobs(route: Route, request: Mapping[str, Any]) -> None:
    """Refuse `echo` where vLLM scores the prompt for it: in a chat, else with `logprobs`."""
    if request.get("echo") and (route is CHAT or request.get("logprobs") is not None):
        combination = "echo in a chat" if route is CHAT else "echo together with logprobs"
        raise invalid(
            f"{combination} is not allowed: {refusal_reason('prompt_logprobs')}. Leave echo out, "
            "or have the operator grant prompt_logprobs (server.granted_fields).",
            "echo",
            code="unsupported_parameter",
        )
