"""What does a request ask for, and what would vLLM refuse about it?

Messages and their order are vLLM 0.32's where a client may meet them; other wrong values are
refused with pydantic's kind of message. Fields that do not matter here are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from paceline.standin.answer import Sampling
from paceline.standin.settings import StandInSettings
from paceline.standin.vocabulary import VOCABULARY_SIZE, encode_chat, encode_text

_SAMPLING_EPS = 1e-5
_MAX_N = 16384


class Refused(Exception):
    """The request is answered with an error of this shape."""

    def __init__(
        self, status: int, message: str, kind: str = "BadRequestError", param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.kind, self.param = status, message, kind, param


@dataclass(frozen=True, slots=True)
class Asked:
    """One request for an answer."""

    is_chat: bool
    prompts: tuple[list[int], ...]
    prompt_texts: tuple[str, ...]
    """For `echo`; empty where the prompt was given as ids or a chat."""
    sampling: Sampling
    """Its `max_tokens` is what the context leaves of it for the longest prompt."""
    seeds: tuple[int | None, ...]
    """One for each of the n choices."""
    stream: bool
    include_usage: bool
    continuous_usage: bool
    return_token_ids: bool
    echo: bool
    cache_salt: str


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
        detail = {"type": "json_invalid", "loc": "body.0", "msg": "JSON decode error", "input": {}}
        message = f"1 validation error:\n  {detail | {'ctx': {'error': str(error)}}}"
        raise Refused(400, message, "Bad Request", "body.0") from None
    if not isinstance(parsed, dict):
        raise _wrong(
            "", "model_attributes_type", "Input should be a valid dictionary or object", ""
        )
    return parsed


def check_model(body: Mapping[str, Any], settings: StandInSettings) -> None:
    model = _field(body, "model", str, None)
    if model and model != settings.model:
        raise Refused(404, f"The model `{model}` does not exist.", "NotFoundError", "model")


def read_asked(
    body: Mapping[str, Any], settings: StandInSettings, *, is_chat: bool, drawn_seed: int
) -> Asked:
    """Check a request as vLLM would; `drawn_seed` is for one that samples and names none.

    Raises `Refused`.
    """
    stream = bool(_field(body, "stream", bool, False))
    options = _field(body, "stream_options", dict, None)
    if options and not stream:
        raise _invalid("Stream options can only be defined when `stream=True`.", "stream_options")
    chat_prompt = _chat_prompt(body) if is_chat else None
    if not is_chat and not body.get("prompt"):
        raise _invalid("Either prompt or prompt_embeds must be provided and non-empty.", "prompt")
    check_model(body, settings)
    if chat_prompt is not None:
        prompts, texts = [chat_prompt], [""]
    else:
        prompts, texts = _completion_prompts(body["prompt"])
    n = _field(body, "n", int, 1) or 1
    sampling = _sampling(body, settings, prompts, is_chat=is_chat, n=n)
    temperature = _field(body, "temperature", float, 1.0)
    seed = _field(body, "seed", int, None)
    seeds: tuple[int | None, ...] = (None,)
    if temperature is None or temperature >= _SAMPLING_EPS:
        first = drawn_seed if seed is None else seed
        seeds = tuple(first + place for place in range(n))
    include_usage = bool(options and options.get("include_usage"))
    return Asked(
        is_chat=is_chat,
        prompts=tuple(prompts),
        prompt_texts=tuple(texts),
        sampling=sampling,
        seeds=seeds,
        stream=stream,
        include_usage=include_usage,
        continuous_usage=include_usage and bool(options and options.get("continuous_usage_stats")),
        return_token_ids=bool(_field(body, "return_token_ids", bool, False)),
        echo=not is_chat and bool(_field(body, "echo", bool, False)),
        cache_salt=_field(body, "cache_salt", str, None) or "",
    )


def _sampling(
    body: Mapping[str, Any],
    settings: StandInSettings,
    prompts: list[list[int]],
    *,
    is_chat: bool,
    n: int,
) -> Sampling:
    wanted, name = _field(body, "max_tokens", int, None if is_chat else 16), "max_tokens"
    if is_chat and _field(body, "max_completion_tokens", int, None) is not None:
        wanted, name = body["max_completion_tokens"], "max_completion_tokens"
    limit = settings.max_model_len
    if wanted is not None and wanted > limit:
        raise _invalid(
            f"{name}={wanted} cannot be greater than max_model_len={limit}. "
            "Please request fewer output tokens.",
            name,
            wanted,
        )
    for prompt in prompts:
        _check_prompt(prompt, limit)
    room = limit - max(map(len, prompts))
    max_tokens = room if wanted is None else min(room, wanted)
    min_tokens = _field(body, "min_tokens", int, 0) or 0
    _check_numbers(body, max_tokens=max_tokens, min_tokens=min_tokens, n=n)
    if settings.speculates and ((body.get("min_p") or 0) > _SAMPLING_EPS or body.get("logit_bias")):
        raise _invalid(
            "The min_p and logit_bias sampling parameters "
            "are not yet supported with speculative decoding."
        )
    stop = body.get("stop") or []
    stop = [stop] if isinstance(stop, str) else stop
    if not isinstance(stop, list) or not all(isinstance(text, str) for text in stop):
        raise _wrong("stop", "list_type", "Input should be a valid list", stop)
    if "" in stop:
        raise _invalid("stop cannot contain an empty string.")
    stop_ids = _field(body, "stop_token_ids", list, None) or []
    if not all(isinstance(token, int) for token in stop_ids):
        raise _wrong("stop_token_ids", "int_type", "Input should be a valid integer", stop_ids)
    return Sampling(
        max_tokens=max_tokens,
        min_tokens=min_tokens,
        stop=tuple(stop),
        include_stop_str_in_output=bool(body.get("include_stop_str_in_output")),
        stop_token_ids=frozenset(stop_ids),
        ignore_eos=bool(body.get("ignore_eos")),
        skip_special_tokens=body.get("skip_special_tokens") is not False,
    )


def _check_prompt(prompt: list[int], limit: int) -> None:
    if len(prompt) > limit:
        # vLLM's tokenizer stops one past the limit, hence its "at least".
        qualifier = "at least " if len(prompt) == limit + 1 else ""
        raise _invalid(
            f"This model's maximum context length is {limit} tokens. However, your prompt "
            f"contains {qualifier}{len(prompt)} input tokens, which exceeds this limit even "
            "without any output tokens. Please reduce the length of the input prompt.",
            "input_tokens",
            len(prompt),
        )
    for token in (min(prompt), max(prompt)) if prompt else ():
        if not 0 <= token < VOCABULARY_SIZE:
            raise _invalid(f"Token id {token} is out of vocabulary", "prompt")


def _check_numbers(body: Mapping[str, Any], *, max_tokens: int, min_tokens: int, n: int) -> None:
    temperature = _field(body, "temperature", float, 1.0)
    temperature = 1.0 if temperature is None else temperature
    if not 1 <= n <= _MAX_N:
        raise _invalid(f"n must be at least 1, got {n}.", "n", n)
    for name in ("presence_penalty", "frequency_penalty"):
        value = _field(body, name, float, 0.0) or 0.0
        if not -2 <= value <= 2:
            raise _invalid(f"{name} must be in [-2, 2], got {value}.")
    if temperature < 0:
        text = f"temperature must be non-negative, got {temperature}."
        raise _invalid(text, "temperature", temperature)
    if temperature > 2:
        text = f"temperature must be in [0, 2], got {temperature}."
        raise _invalid(text, "temperature", temperature)
    top_p = _field(body, "top_p", float, None)
    if top_p is not None and not 0 < top_p <= 1:
        raise _invalid(f"top_p must be in (0, 1], got {top_p}.", "top_p", top_p)
    min_p = _field(body, "min_p", float, None)
    if min_p is not None and not 0 <= min_p <= 1:
        raise _invalid(f"min_p must be in [0, 1], got {min_p}.")
    if max_tokens < 1:
        text = f"max_tokens must be at least 1, got {max_tokens}."
        raise _invalid(text, "max_tokens", max_tokens)
    if min_tokens < 0:
        raise _invalid(f"min_tokens must be greater than or equal to 0, got {min_tokens}.")
    if min_tokens > max_tokens:
        raise _invalid(
            f"min_tokens must be less than or equal to max_tokens={max_tokens}, got {min_tokens}."
        )
    if temperature < _SAMPLING_EPS and n > 1:
        raise _invalid(f"n must be 1 when using greedy sampling, got {n}.")


def _completion_prompts(prompt: Any) -> tuple[list[list[int]], list[str]]:
    """A text, token ids, or a list of either."""
    if isinstance(prompt, str):
        return [encode_text(prompt)], [prompt]
    if isinstance(prompt, list):
        if all(isinstance(part, int) for part in prompt):
            return [prompt], [""]
        if all(isinstance(part, str) for part in prompt):
            return [encode_text(part) for part in prompt], list(prompt)
        if all(isinstance(part, list) and all(type(x) is int for x in part) for part in prompt):
            return list(prompt), [""] * len(prompt)
    raise _wrong("prompt", "string_type", "Input should be a valid string", prompt)


def _chat_prompt(body: Mapping[str, Any]) -> list[int]:
    messages = _field(body, "messages", list, None)
    if messages is None:
        raise _wrong("messages", "missing", "Field required", dict(body))
    pairs = []
    for place, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise _wrong(f"messages.{place}.role", "missing", "Field required", message)
        pairs.append((message["role"], _text_of(message.get("content"))))
    return encode_chat(pairs, add_generation_prompt=body.get("add_generation_prompt") is not False)


def _text_of(content: Any) -> str:
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "\n".join(text for text in parts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def _field(body: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    """A field's value, when it has the type; an absent one is the default, null stays null."""
    value = body.get(name, default)
    if value is None or (isinstance(value, kind) and not (kind is int and value is True)):
        return value
    if kind is float and isinstance(value, int):
        return float(value)
    error = f"Input should be a valid {_KIND_NAMES[kind]}"
    raise _wrong(name, f"{kind.__name__}_type", error, value)


_KIND_NAMES = {int: "integer", float: "number", bool: "boolean", str: "string"} | {
    list: "list",
    dict: "dictionary",
}


def _wrong(name: str, kind: str, message: str, value: Any) -> Refused:
    loc = f"body.{name}" if name else "body"
    shown = value if isinstance(value, str | int | float) else f"<{type(value).__name__}>"
    detail = {"type": kind, "loc": loc, "msg": message, "input": shown}
    return Refused(400, f"1 validation error:\n  {detail}", "Bad Request", loc)


def _invalid(message: str, param: str | None = None, value: object = None) -> Refused:
    extras = [f"parameter={param}"] * (param is not None) + [f"value={value}"] * (value is not None)
    return Refused(400, f"{message} ({', '.join(extras)})" if extras else message, param=param)
