"""How does vLLM refuse a request, and which fields have which type?

Two kinds of 400: those of pydantic, which lists every error under "validation errors", and vLLM's
own, whose text ends with "(parameter=…, value=…)".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


class Refused(Exception):
    """The request is answered with an error of this shape."""

    def __init__(
        self, status: int, message: str, kind: str = "BadRequestError", param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.kind, self.param = status, message, kind, param


def read_body(body: bytes, content_type: str) -> dict[str, Any]:
    """The JSON object of a request."""
    if content_type.split(";")[0].strip().lower() != "application/json":
        message = (
            "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed"
        )
        raise Refused(400, message, "Bad Request")
    try:
        parsed = msgspec.json.decode(body)
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
        raise ill_formed("body", wrong("body", "model_attributes_type", text, parsed))
    return parsed


def check_types(body: Mapping[str, Any]) -> None:
    for name, kind in _KINDS.items():
        value = body.get(name)
        if value is not None and not _is(value, kind):
            raise ill_formed(f"body.{name}", _wrong_kind(f"body.{name}", kind, value))
    stop = body.get("stop")
    if stop is not None and not isinstance(stop, str) and not is_list_of(stop, str):
        details = [
            wrong("body.stop", f"{kind}_type", f"Input should be a valid {kind}", stop)
            for kind in ("string", "list")
        ]
        raise ill_formed("body.stop", *details)
    if not is_list_of(body.get("stop_token_ids") or [], int):
        name = "body.stop_token_ids.0"
        raise ill_formed(name, _wrong_kind(name, int, body["stop_token_ids"][0]))


_KINDS: Mapping[str, type] = {
    **dict.fromkeys(("model", "cache_salt"), str),
    **dict.fromkeys(
        ("max_tokens", "max_completion_tokens", "min_tokens", "n", "seed", "top_k"), int
    ),
    **dict.fromkeys(
        ("temperature", "top_p", "min_p", "presence_penalty", "frequency_penalty"), float
    ),
    **dict.fromkeys(
        ("stream", "echo", "ignore_eos", "return_token_ids", "include_stop_str_in_output"), bool
    ),
    **dict.fromkeys(("messages", "stop_token_ids"), list),
    **dict.fromkeys(("stream_options", "logit_bias"), dict),
}


def _is(value: object, kind: type) -> bool:
    if kind is float:
        return type(value) in (int, float)
    return type(value) is kind


def is_list_of(value: object, kind: type) -> bool:
    return isinstance(value, list) and all(type(part) is kind for part in value)


_Detail = dict[str, Any]


def _wrong_kind(loc: str, kind: type, value: object) -> _Detail:
    noun = {int: "integer", float: "number", bool: "boolean", str: "string", dict: "dictionary"}
    text = f"Input should be a valid {noun.get(kind, 'list')}"
    if kind in (int, float) and isinstance(value, str):
        article = "an integer" if kind is int else "a number"
        text += f", unable to parse string as {article}"
        return wrong(loc, f"{kind.__name__}_parsing", text, value)
    return wrong(loc, f"{noun.get(kind) if kind is str else kind.__name__}_type", text, value)


def wrong(loc: str, kind: str, message: str, value: object) -> _Detail:
    shown = str(value)
    if isinstance(value, dict | list):
        shown = f"<{type(value).__name__} of {len(value)} items>"
    return {"type": kind, "loc": loc, "msg": message, "input": shown}


def ill_formed(param: str, *details: _Detail) -> Refused:
    """As pydantic's errors come out of vLLM."""
    label = "error" if len(details) == 1 else "errors"
    listed = "\n".join(f"  {detail}" for detail in details)
    return Refused(400, f"{len(details)} validation {label}:\n{listed}", "Bad Request", param)


def invalid(message: str, param: str | None = None, value: object = None) -> Refused:
    """As vLLM's own checks come out."""
    extras = [f"parameter={param}"] * (param is not None) + [f"value={value}"] * (value is not None)
    return Refused(400, f"{message} ({', '.join(extras)})" if extras else message, param=param)
