"""Parse and check a request for an answer, as vLLM does.

The error messages and the order of the checks are vLLM 0.32's. Fields that the mock server does not
use are ignored, as vLLM ignores unknown fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paceline.testing.mock_vllm.http.field_checks import check_types
from paceline.testing.mock_vllm.http.prompts import chat_prompt, completion_prompts
from paceline.testing.mock_vllm.http.refusals import RequestRefused, invalid
from paceline.testing.mock_vllm.model.sampling import SamplingParams
from paceline.testing.mock_vllm.model.speculation import check_rates, is_list_of_numbers
from paceline.testing.mock_vllm.model.vocabulary import VOCABULARY_SIZE
from paceline.testing.mock_vllm.settings import MockVllmSettings

_SAMPLING_EPS = 1e-5
_MAX_N = 16384


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """One request for an answer."""

    is_chat: bool
    prompts: tuple[list[int], ...]
    sampling: SamplingParams
    """Its `max_tokens` is limited to the context left after the longest prompt."""
    seeds: tuple[int | None, ...]
    """One for each of the n choices."""
    stream: bool
    include_usage: bool
    continuous_usage: bool
    return_token_ids: bool
    echo: bool
    cache_salt: str
    shows_token_ids: bool = False
    """Tokens in `logprobs` are shown as `token_id:` and the id."""
    acceptance_rates: tuple[float, ...] = ()
    """Scripted acceptance of its drafts, unconditional by position; empty without speculation."""
    response: Mapping[str, Any] | None = None
    """The body of a request to /v1/responses, which its answer repeats; else None."""


def check_model(body: Mapping[str, Any], settings: MockVllmSettings) -> None:
    model = body.get("model")
    if model and model != settings.model:
        text = f"The model `{model}` does not exist. Valid aliases: {settings.model}."
        raise RequestRefused(404, text, "NotFoundError", "model")


def parse_request(
    body: Mapping[str, Any], settings: MockVllmSettings, *, is_chat: bool, drawn_seed: int
) -> ParsedRequest:
    """Check a request as vLLM does; `drawn_seed` is used if it samples and names no seed.

    Raises `RequestRefused`.
    """
    check_types(body)
    stream, options = bool(body.get("stream")), body.get("stream_options") or {}
    if options and not stream:
        raise invalid("Stream options can only be defined when `stream=True`.", "stream_options")
    if not is_chat and not body.get("prompt"):
        raise invalid("Either prompt or prompt_embeds must be provided and non-empty.", "prompt")
    prompts = [chat_prompt(body)] if is_chat else completion_prompts(body["prompt"])
    check_model(body, settings)
    if is_chat and not body["messages"]:
        raise invalid(
            "Cannot apply chat template to an empty conversation. Provide at least one message."
        )
    n = 1 if body.get("n") is None else body["n"]
    sampling = _sampling(body, settings, prompts, is_chat=is_chat, n=n)
    seeds: tuple[int | None, ...] = (None,)
    if _number(body, "temperature", 1.0) >= _SAMPLING_EPS:
        first = drawn_seed if body.get("seed") is None else body["seed"]
        seeds = tuple(first + index for index in range(n))
    include_usage = bool(options.get("include_usage"))
    return ParsedRequest(
        is_chat=is_chat,
        prompts=tuple(prompts),
        sampling=sampling,
        seeds=seeds,
        stream=stream,
        include_usage=include_usage,
        continuous_usage=include_usage and bool(options.get("continuous_usage_stats")),
        return_token_ids=bool(body.get("return_token_ids")),
        echo=not is_chat and bool(body.get("echo")),
        cache_salt=body.get("cache_salt") or "",
        shows_token_ids=bool(body.get("return_tokens_as_token_ids")),
        acceptance_rates=_acceptance_rates(body, settings),
    )


def _acceptance_rates(body: Mapping[str, Any], settings: MockVllmSettings) -> tuple[float, ...]:
    """The rates in `vllm_xargs` of the request, else the server's.

    vLLM passes `vllm_xargs` on to extensions and reads no rates from it.
    """
    speculation = settings.speculation
    if speculation is None:
        return ()
    extra = body.get("vllm_xargs")
    rates = extra.get("synthetic_acceptance_rates") if isinstance(extra, dict) else None
    if rates is None:
        return speculation.rates
    if not is_list_of_numbers(rates):
        text = f"synthetic_acceptance_rates must be a list of numbers, got {rates!r}."
        raise invalid(text, "vllm_xargs")
    try:
        check_rates(rates, speculation.draft_length)
    except ValueError as error:
        raise invalid(str(error), "vllm_xargs") from None
    return tuple(map(float, rates))


def _sampling(
    body: Mapping[str, Any],
    settings: MockVllmSettings,
    prompts: list[list[int]],
    *,
    is_chat: bool,
    n: int,
) -> SamplingParams:
    wanted, name = body.get("max_tokens", None if is_chat else 16), "max_tokens"
    for other in ("max_completion_tokens", "max_output_tokens") if is_chat else ():
        if body.get(other) is not None:
            wanted, name = body[other], other
    limit = settings.max_model_len
    if wanted is not None and wanted > limit:
        raise invalid(
            f"{name}={wanted} cannot be greater than max_model_len={limit}. "
            "Please request fewer output tokens.",
            name,
            wanted,
        )
    for prompt in prompts:
        _check_prompt(prompt, limit)
    room = limit - max(map(len, prompts))
    max_tokens = room if wanted is None else min(room, wanted)
    min_tokens = body.get("min_tokens") or 0
    _check_numbers(body, max_tokens=max_tokens, min_tokens=min_tokens, n=n)
    if body.get("allowed_token_ids") == []:
        raise invalid(
            "allowed_token_ids is not None and empty!",
            "allowed_token_ids",
            body["allowed_token_ids"],
        )
    if settings.drafts and (_number(body, "min_p", 0) > _SAMPLING_EPS or body.get("logit_bias")):
        raise invalid(
            "The min_p and logit_bias sampling parameters "
            "are not yet supported with speculative decoding."
        )
    stop = body.get("stop") or []
    stop = [stop] if isinstance(stop, str) else stop
    if "" in stop:
        raise invalid("stop cannot contain an empty string.")
    return SamplingParams(
        max_tokens=max_tokens,
        min_tokens=min_tokens,
        stop=tuple(stop),
        include_stop_str_in_output=bool(body.get("include_stop_str_in_output")),
        stop_token_ids=frozenset(body.get("stop_token_ids") or ()),
        ignore_eos=bool(body.get("ignore_eos")),
        skip_special_tokens=body.get("skip_special_tokens") is not False,
        num_logprobs=None if is_chat else body.get("logprobs"),
        **_choice_of_tokens(body),
    )


def _choice_of_tokens(body: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that change which token comes next."""
    temperature = _number(body, "temperature", 1.0)
    allowed, biases = body.get("allowed_token_ids"), body.get("logit_bias") or {}
    return {
        "temperature": temperature if temperature >= _SAMPLING_EPS else 1.0,  # greedy: no seed
        "top_p": _number(body, "top_p", 1.0),
        "top_k": body.get("top_k") or 0,
        "min_p": _number(body, "min_p", 0.0),
        "logit_bias": tuple(
            (_token_id(token, biases), min(100.0, max(-100.0, bias)))
            for token, bias in biases.items()
        ),
        "allowed_token_ids": None if allowed is None else frozenset(allowed),
        **{
            name: _number(body, name, 1.0 if name.startswith("repetition") else 0.0)
            for name in ("repetition_penalty", "presence_penalty", "frequency_penalty")
        },
    }


def _token_id(token: str, biases: Mapping[str, float]) -> int:
    try:
        return int(token)
    except ValueError:
        wrong = [one for one in biases if not one.lstrip("+-").isdecimal()]
        text = f"logit_bias contains key(s) that cannot be converted to integer token IDs: {wrong}"
        raise invalid(text, "logit_bias", wrong) from None


def _check_prompt(prompt: list[int], limit: int) -> None:
    if len(prompt) > limit:
        # vLLM's tokenizer stops one token after the limit, hence its "at least".
        qualifier = "at least " if len(prompt) == limit + 1 else ""
        raise invalid(
            f"This model's maximum context length is {limit} tokens. However, your prompt "
            f"contains {qualifier}{len(prompt)} input tokens, which exceeds this limit even "
            "without any output tokens. Please reduce the length of the input prompt.",
            "input_tokens",
            len(prompt),
        )
    for token in (min(prompt), max(prompt)) if prompt else ():
        if not 0 <= token < VOCABULARY_SIZE:
            raise invalid(f"Token id {token} is out of vocabulary")


def _check_numbers(body: Mapping[str, Any], *, max_tokens: int, min_tokens: int, n: int) -> None:
    if not 1 <= n <= _MAX_N:
        raise invalid(f"n must be at least 1, got {n}.")
    for name in ("presence_penalty", "frequency_penalty"):
        value = _number(body, name, 0.0)
        if not -2 <= value <= 2:
            raise invalid(f"{name} must be in [-2, 2], got {value}.")
    temperature = _number(body, "temperature", 1.0)
    if temperature < 0:
        text = f"temperature must be non-negative, got {temperature}."
        raise invalid(text, "temperature", temperature)
    if temperature > 2:
        text = f"temperature must be in [0, 2], got {temperature}."
        raise invalid(text, "temperature", temperature)
    top_p, min_p = _number(body, "top_p", 1.0), _number(body, "min_p", 0.0)
    if not 0 < top_p <= 1:
        raise invalid(f"top_p must be in (0, 1], got {top_p}.", "top_p", top_p)
    if not 0 <= min_p <= 1:
        raise invalid(f"min_p must be in [0, 1], got {min_p}.")
    if max_tokens < 1:
        text = f"max_tokens must be at least 1, got {max_tokens}."
        raise invalid(text, "max_tokens", max_tokens)
    if min_tokens < 0:
        raise invalid(f"min_tokens must be greater than or equal to 0, got {min_tokens}.")
    if min_tokens > max_tokens:
        raise invalid(
            f"min_tokens must be less than or equal to max_tokens={max_tokens}, got {min_tokens}."
        )
    if temperature < _SAMPLING_EPS and n > 1:
        raise invalid(f"n must be 1 when using greedy sampling, got {n}.")


def _number(body: Mapping[str, Any], name: str, default: float) -> float:
    value = body.get(name)
    return default if value is None else float(value)
