"""Translate an engine's error into a `Problem` that the client may read.

Engines use different forms. vLLM's errors contain integer codes, pydantic reports that quote the
request, and paths of vLLM's files. Only this module knows these forms.
"""

from __future__ import annotations

import re

import msgspec

from paceline.runtime.gateway.fleet.error_bodies import (
    error_message_of,
    is_context_error,
    status_meant,
)
from paceline.runtime.gateway.http.errors import Problem, context_length_exceeded, unavailable
from paceline.runtime.gateway.outcomes import Outcome
from paceline.runtime.gateway.requests.routes import Route

_MAX_MESSAGE_CHARS = 1000
_MAX_SCRUBBED_CHARS = 4 * _MAX_MESSAGE_CHARS
"""Longer messages are cut to this before scrubbing: the time of some patterns grows faster than the
text, and an engine may quote a whole prompt of blanks."""

_SCRUB = (
    # vLLM appends "(parameter=…, value=…)" to its own validation errors
    (re.compile(r" \(parameter=.*$", re.DOTALL), ""),
    # pydantic's own text quotes the input
    (re.compile(r" \[type=\w+, input_value=.*?(?:, input_type=[\w.]+\]|$)", re.DOTALL), ""),
    (re.compile(r"\s*For further information visit \S+"), ""),
    (re.compile(r"Traceback \(most recent call last\):"), ""),
    (re.compile(r'\n?\s*File "[^"]*", line \d+, in \S+(\n\s+.*)?'), ""),
    (re.compile(r" at 0x[0-9a-fA-F]+"), ""),
    (re.compile(r"(?i:bearer )\S+|\b(?:sk|pl|hf|gsk|nvapi)[-_][\w\-]{16,}"), "<key>"),
    (re.compile(r"\b(?:https?|wss?|unix|tcp|ipc|inproc|grpc|file|s3|gs)://\S+"), "<address>"),
    # 10.0.0.1, 10.0.0.1:8000, engine-0.internal:8000, localhost:8000, [fd00::1]:8000
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b"), "<address>"),
    (re.compile(r"\b(?:[\w\-]+(?:\.[\w\-]+)+|localhost):\d{2,5}\b"), "<address>"),
    (re.compile(r"\[[0-9a-fA-F:]*:[0-9a-fA-F:.]*\](?::\d{1,5})?"), "<address>"),
    # not "and/or", not "1/2", not the "</tag>" of a template
    (re.compile(r"(?<![\w.</])~?(?:/[\w.+@\-]+){2,}/?"), "<path>"),
    (re.compile(r"\b[A-Za-z]:\\[\w.+@\-\\]+"), "<path>"),
)
_PYDANTIC_MESSAGE = re.compile(r"""'msg': (?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)")""")
# vLLM's EngineDeadError, the one 500 after which the server ends and is started again
_DEAD = re.compile(r"EngineCore encountered an issue")
_SILENT = "The engine refused this request and did not say why."
# FastAPI's own words for a path it does not have (vLLM, SGLang) and llama.cpp's; vLLM's for a
# handler that the model's task does not bring, llama.cpp's for one it was not started with.
_NO_ROUTE = re.compile(
    rf"^(Not Found|Method Not Allowed|File Not Found|{_SILENT})$"
    r"|does not support (embeddings|\w+ API)"
)
_TRANSIENT = (502, 503, 504, 508)
"""Statuses of a temporary failure, which the client can neither cause nor fix."""
_REFUSALS = (400, 404, 405, 408, 413, 422, 424, 429)
"""With these an engine may refuse a request that the gateway has checked. Any other status below
500 comes from something else at the replica's address: a redirect, a login page, a proxy that
limits or filters, an engine that expects another key than the gateway's."""
MISDIRECTED = "engine_misdirected"
"""Code of an answer that comes from no engine, or from one that refuses the gateway itself."""
UNSUPPORTED = "unsupported_parameter"
"""Code of an engine's refusal because of how it is configured: one that does not draft may serve
the request."""
_IS_STATUS = re.compile(r"[45]\d\d\Z", re.ASCII)
_WORDS = tuple(
    (re.compile(words, re.IGNORECASE), status)
    for words, status in (
        (r"rate.?limit|too.?many.?requests|insufficient.?quota", 429),
        (r"unavailable|overloaded|server_stopping|misdirected|slow_down|buffers_full", 503),
        (r"timeout|timed_out|deadline_exceeded", 504),
        (r"context_length|invalid_(request|value|prompt)|BadRequest|unsupported_param", 400),
    )
)
"""Codes and types of errors, as other gateways (this one, too), OpenAI and vLLM name them."""
_OUTPUT_PARAMS = ("max_tokens", "max_completion_tokens")


def problem_of(
    status: int,
    body: bytes,
    route: Route,
    fields: frozenset[str],
    retry_after_s: int,
    dialect: str = "vllm",
) -> Problem:
    """Translate one error answer. `fields` names the request fields that were sent with a value."""
    text, param = error_message_of(dialect, status, body)
    status = status_meant(dialect, status, text)
    message, param = _shown(text, param)
    if status < 500 and status not in _REFUSALS:
        return Problem(
            503,
            "What answers at the engine's address does not serve as an engine at the moment.",
            MISDIRECTED,
            retry_after_s=retry_after_s,
        )
    if status in _TRANSIENT or (status >= 500 and _DEAD.search(message)):
        return unavailable("The engine failed on this request; try again.", retry_after_s)
    if status >= 500 and status != 501:
        return Problem(
            500,
            "The engine failed on this request and still serves; the same request is likely to "
            "fail again.",
            "engine_error",
        )
    if is_context_error(message):
        output_param = next((name for name in _OUTPUT_PARAMS if message.startswith(name)), None)
        return context_length_exceeded(message, output_param or route.prompt_param)
    if "not yet supported with speculative decoding" in message:
        return _refused_under_speculation(fields)
    if status == 429:
        return Problem(429, message, "rate_limited", param, retry_after_s=retry_after_s)
    if status in (404, 405, 501) and _NO_ROUTE.search(message):
        return Problem(
            404,
            f"The engine of this model does not serve {route.path}.",
            "route_not_served",
            "model",
        )
    if status in (404, 408, 413):
        code = {404: "not_found", 408: "engine_timeout", 413: "body_too_large"}[status]
        return Problem(status, message, code, param)
    return Problem(400, message, "invalid_value", param)


def outcome_of(problem: Problem) -> Outcome:
    if problem.code == MISDIRECTED:
        return Outcome.MISDIRECTED
    return Outcome.ENGINE_ERROR if problem.status >= 500 else Outcome.ENGINE_REFUSED


def is_death(status: int, body: bytes, dialect: str = "vllm") -> bool:
    """Whether this error says that the engine has ended: its server follows."""
    return status >= 500 and _DEAD.search(error_message_of(dialect, status, body)[0]) is not None


def status_in(body: bytes) -> int:
    """The HTTP status that an error event inside a stream stands for; 500 when it names none.

    A number counts before words, the code before the type.

    >>> status_in(b'{"error": {"type": "service_unavailable_error", "code": "engine_unavailable"}}')
    503
    """
    error = _error_object(body)
    named = [error.get(name) for name in ("code", "http_status_code", "status", "type")]
    for value in named:
        number = int(value) if isinstance(value, str) and _IS_STATUS.match(value) else value
        if isinstance(number, int) and 400 <= number <= 599:
            return number
    for value in named:
        if isinstance(value, str):
            status = next((status for words, status in _WORDS if words.search(value)), None)
            if status is not None:
                return status
    return 500


def scrub(message: str) -> str:
    """The message without paths, addresses, keys and traces, cut to a readable length."""
    message = message[:_MAX_SCRUBBED_CHARS]
    for pattern, replacement in _SCRUB:
        message = pattern.sub(replacement, message)
    message = message.strip()
    if len(message) > _MAX_MESSAGE_CHARS:
        message = message[:_MAX_MESSAGE_CHARS] + "…"
    return message


def _refused_under_speculation(fields: frozenset[str]) -> Problem:
    named = [name for name in ("min_p", "logit_bias") if name in fields]
    return Problem(
        400,
        f"{' and '.join(named) or 'min_p and logit_bias'} cannot be used while this server drafts "
        "speculatively. Leave it out, or have the operator serve with --draft none.",
        UNSUPPORTED,
        named[0] if named else None,
    )


def _shown(text: str, param: str | None) -> tuple[str, str | None]:
    """Message and field for the client."""
    name = param.removeprefix("body.") if param else None
    details = [a or b for a, b in _PYDANTIC_MESSAGE.findall(text)]
    if details:
        reasons = "; ".join(dict.fromkeys(details[:3]))
        text = f"{name}: {reasons}" if name else reasons
    return scrub(text) or _SILENT, name


def _error_object(body: bytes) -> dict[str, object]:
    try:
        parsed = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    if not isinstance(parsed, dict):
        return {}
    error = parsed.get("error", parsed)
    return error if isinstance(error, dict) else {"message": error}
