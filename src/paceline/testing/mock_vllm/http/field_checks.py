"""Read the JSON object of a request and check the types of its fields, as vLLM does."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Any

import msgspec

from paceline.testing.mock_vllm.http.refusals import (
    Detail,
    RequestRefused,
    describe_error,
    ill_formed,
)


def read_body(body: bytes, content_type: str) -> dict[str, Any]:
    """Return the JSON object of a request. Raises `RequestRefused`."""
    if content_type.split(";")[0].strip().lower() != "application/json":
        message = (
            "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed"
        )
        raise RequestRefused(400, message, "Bad Request")
    try:
        parsed = msgspec.json.decode(body.removeprefix(codecs.BOM_UTF8))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        detail = {
            "type": "json_invalid",
            "loc": "body.0",
            "msg": "JSON decode error",
            "input": "<dict of 0 items>",
            "ctx": {"error": str(error)},
        }
        raise ill_formed("body.0", detail) from None
    if not isinstance(parsed, dict):
        text = "Input should be a valid dictionary or object to extract fields from"
        raise ill_formed("body", describe_error("body", "model_attributes_type", text, parsed))
    return {
        name: _whole(value) if name in _WHOLE or _KINDS.get(name) is int else value
        for name, value in parsed.items()
    }


def _whole(value: Any) -> Any:
    """vLLM's models take 8.0 for an integer, also in lists."""
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if type(value) is float and value.is_integer() else value


def check_types(body: Mapping[str, Any]) -> None:
    """Check the types of the known fields. Raises `RequestRefused` for the first wrong one."""
    for name, kind in _KINDS.items():
        value = body.get(name)
        if value is not None and not _is(value, kind):
            raise ill_formed(f"body.{name}", _describe_wrong_type(f"body.{name}", kind, value))
    stop = body.get("stop")
    if stop is not None and not isinstance(stop, str) and not is_list_of(stop, str):
        details = [
            describe_error("body.stop", f"{kind}_type", f"Input should be a valid {kind}", stop)
            for kind in ("string", "list")
        ]
        raise ill_formed("body.stop", *details)
    for token, bias in (body.get("logit_bias") or {}).items():
        if not _is(bias, float):
            name = f"body.logit_bias.{token}"
            raise ill_formed(name, _describe_wrong_type(name, float, bias))
    if not is_list_of(body.get("stop_token_ids") or [], int):
        name = "body.stop_token_ids.0"
        raise ill_formed(name, _describe_wrong_type(name, int, body["stop_token_ids"][0]))


_KINDS: Mapping[str, type] = {
    **dict.fromkeys(("model", "cache_salt"), str),
    **dict.fromkeys(
        (
            "max_tokens",
            "max_completion_tokens",
            "max_output_tokens",
            "min_tokens",
            "n",
            "seed",
            "top_k",
        ),
        int,
    ),
    **dict.fromkeys(
        (
            "temperature",
            "top_p",
            "min_p",
            "presence_penalty",
            "frequency_penalty",
            "repetition_penalty",
        ),
        float,
    ),
    **dict.fromkeys(
        ("stream", "echo", "ignore_eos", "return_token_ids", "include_stop_str_in_output"), bool
    ),
    **dict.fromkeys(("messages", "stop_token_ids", "allowed_token_ids"), list),
    **dict.fromkeys(("stream_options", "logit_bias"), dict),
}


_WHOLE = ("prompt", "stop_token_ids", "allowed_token_ids", "logprobs", "top_logprobs")
"""Fields with integers inside, or with a check of their own."""


def _is(value: object, kind: type) -> bool:
    if kind is float:
        return type(value) in (int, float)
    return type(value) is kind


def is_list_of(value: object, kind: type) -> bool:
    return isinstance(value, list) and all(type(part) is kind for part in value)


def _describe_wrong_type(loc: str, kind: type, value: object) -> Detail:
    noun = {int: "integer", float: "number", bool: "boolean", str: "string", dict: "dictionary"}
    text = f"Input should be a valid {noun.get(kind, 'list')}"
    if kind in (int, float) and isinstance(value, str):
        article = "an integer" if kind is int else "a number"
        text += f", unable to parse string as {article}"
        return describe_error(loc, f"{kind.__name__}_parsing", text, value)
    return describe_error(
        loc, f"{noun.get(kind) if kind is str else kind.__name__}_type", text, value
    )
