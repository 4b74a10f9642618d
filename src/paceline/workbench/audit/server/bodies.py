"""Requests as bodies of /v1/completions, answers from its choices, and the curl line of a request.

Pure. Token ids are requested with vLLM's `return_token_ids` and `return_tokens_as_token_ids`; a
server that does not know them answers with text, and then tokens are texts.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from paceline.workbench.audit.server.transport import ServerError
from paceline.workbench.audit.values import Answer, Logprobs, Request, Token

PATH = "/v1/completions"
_ID_PREFIX = "token_id:"
_ROUNDING_NATS = 1e-3
"""A logarithm of 1 may be rounded to slightly above 0."""
OFF_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "speculation": {"speculation": {"max_draft_length": 0}},
    "vllm_xargs": {"vllm_xargs": {"paceline_max_draft_length": 0}},
}
"""How a request switches drafts off: at Paceline's gateway, and at an engine with its scheduler."""


NEUTRAL: Mapping[str, Any] = {"top_k": -1, "repetition_penalty": 1.0}
"""Fields of vLLM that change nothing, and keep the defaults of `generation_config.json` out."""


NEUTRAL_MIN_P: Mapping[str, Any] = {"min_p": 0.0}
"""As `NEUTRAL`; servers may know one and not the other."""


_NEUTRAL_VALUES: Mapping[str, Any] = {
    "seed": None, "n": 1, "top_k": -1, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0,
    "presence_penalty": 0.0, "frequency_penalty": 0.0, "logit_bias": None, "stop": None,
    "response_format": None, "logprobs": None, "echo": None,
}  # fmt: skip


def render_body(
    request: Request,
    model: str,
    *,
    off_switch: str | None = None,
    extended: bool = False,
    min_p: bool = False,
) -> dict[str, Any]:
    """The body of a request; `off_switch` is a key of `OFF_FIELDS`.

    `extended`: the server knows `top_k` and `repetition_penalty`, whose defaults may come from the
    model's `generation_config.json`; they are sent even where they have no effect. `min_p`: the
    same of this field.
    """
    body: dict[str, Any] = {
        "model": model,
        "prompt": _render_prompt(request.prompt),
        "max_tokens": request.max_tokens,
        **request.case.fields(),
        "return_token_ids": True,
    }
    if extended:
        body |= NEUTRAL
        body["top_k"] = request.case.top_k or NEUTRAL["top_k"]
    if min_p:
        body |= NEUTRAL_MIN_P
    if request.n > 1:
        body["n"] = request.n
    if request.seed is not None:
        body["seed"] = request.seed
    if request.num_logprobs is not None:
        body |= {"logprobs": request.num_logprobs, "return_tokens_as_token_ids": True}
    if request.stop is not None:
        body["stop"] = request.stop
    if not request.drafts and off_switch is not None:
        body |= OFF_FIELDS[off_switch]
    return body | dict(request.extra)


def _render_prompt(prompt: str | Sequence[int] | Sequence[Sequence[int]]) -> str | list[Any]:
    if isinstance(prompt, str):
        return prompt
    return [one if isinstance(one, int) else list(one) for one in prompt]


def render_curl(url: str, body: Mapping[str, Any]) -> str:
    """A command that repeats a request."""
    return (
        f"curl -s {shlex.quote(url.rstrip('/') + PATH)} -H 'content-type: application/json' "
        f"-d {shlex.quote(json.dumps(body, ensure_ascii=False))}"
    )


def describe_request(body: Mapping[str, Any]) -> str:
    """A request in words: how it is sampled, and what else it asks.

    >>> describe_request({"temperature": 1.0, "top_p": 1.0, "seed": 7, "top_k": -1})
    'a sampled request with seed'
    >>> describe_request({"temperature": 0.0, "n": 2})
    'a greedy request with n'
    """
    kind = "a sampled request" if body.get("temperature") else "a greedy request"
    fields = [
        name
        for name, neutral in _NEUTRAL_VALUES.items()
        if body.get(name, neutral) not in (neutral, None)
    ]
    return f"{kind} with {' and '.join(fields)}" if fields else kind


def read_answers(
    document: Mapping[str, Any], *, num_logprobs: int | None, last: int | None = None
) -> list[Answer]:
    """The choices of a completion, by their index. Raises ServerError for another document.

    `last`: read the log-probabilities of this many tokens at the end only.
    """
    choices = document.get("choices")
    if (
        not isinstance(choices, list)
        or not choices
        or not all(isinstance(one, dict) for one in choices)
    ):
        raise ServerError(f"{PATH} answered without choices: {str(document)[:200]}", 200)
    try:
        ordered = sorted(choices, key=lambda choice: choice.get("index") or 0)
        return [_read_choice(choice, num_logprobs, last) for choice in ordered]
    except (TypeError, ValueError, AttributeError) as error:
        raise ServerError(f"{PATH} answered with a malformed choice: {error}", 200) from error


def _read_choice(choice: Mapping[str, Any], num_logprobs: int | None, last: int | None) -> Answer:
    ids, prompt_ids = choice.get("token_ids"), choice.get("prompt_token_ids")
    logprobs = choice.get("logprobs") if num_logprobs else None
    found: tuple[Logprobs, ...] = ()
    named: tuple[Token, ...] = ()
    if isinstance(logprobs, dict) and num_logprobs:
        start = 0 if last is None else -last
        tokens, tops = logprobs.get("tokens") or (), logprobs.get("top_logprobs") or ()
        if tokens and tops and len(tokens) != len(tops):
            raise ValueError(f"{len(tokens)} tokens have top_logprobs at {len(tops)} positions")
        named, tops = tuple(map(read_token, tokens[start:])), tops[start:]
        if tops and tops[0] is None:  # the first token of a prompt
            tops = tops[1:]
        found = tuple(read_logprobs(top, num_logprobs) for top in tops)
    return Answer(
        tokens=tuple(ids) if isinstance(ids, list) else named,
        text=str(choice.get("text") or ""),
        finish_reason=choice.get("finish_reason"),
        logprobs=found,
        prompt_ids=tuple(prompt_ids) if isinstance(prompt_ids, list) else None,
    )


def read_token(shown: str) -> Token:
    """A token as `logprobs` shows it: an id after `token_id:`, else its text."""
    if shown.startswith(_ID_PREFIX) and shown[len(_ID_PREFIX) :].isdigit():
        return int(shown[len(_ID_PREFIX) :])
    return shown


def read_logprobs(top: Mapping[str, float] | None, num: int) -> dict[Token, float]:
    """The best `num` log-probabilities; vLLM adds the sampled token to them.

    A token with -Infinity has probability 0 and is left out, as those that are not named. Raises
    ValueError if no token is left, or one has no number up to 0.
    """
    found = {token: _read_logprob(token, logprob) for token, logprob in (top or {}).items()}
    possible = [(token, logprob) for token, logprob in found.items() if logprob > -math.inf]
    if not possible:
        raise ValueError("top_logprobs has a position without log-probabilities")
    best = sorted(possible, key=lambda item: -item[1])[:num]
    return {read_token(token): logprob for token, logprob in best}


def _read_logprob(token: str, logprob: object) -> float:
    is_real = isinstance(logprob, int | float) and not isinstance(logprob, bool)
    number = float(str(logprob)) if is_real else math.nan
    if math.isnan(number):
        raise ValueError(f"top_logprobs has no number for {token!r}")
    if number > _ROUNDING_NATS:
        raise ValueError(f"top_logprobs has {number:g} for {token!r}; it must be at most 0")
    return number
