"""Render the log-probabilities of an answer to a completion, in vLLM's form.

With `echo`, those of the prompt come first. The mock model has at most eight tokens with a
probability worth naming per position, so fewer than requested may be shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from paceline.testing.mock_vllm.http.request_parser import ParsedRequest
from paceline.testing.mock_vllm.model.answer import AnswerDelta
from paceline.testing.mock_vllm.model.sampling import TokenLogprobs, prompt_logprobs
from paceline.testing.mock_vllm.model.vocabulary import decode
from paceline.testing.mock_vllm.settings import MockVllmSettings


def render_logprobs(
    request: ParsedRequest,
    settings: MockVllmSettings,
    prompt_ids: Sequence[int],
    delta: AnswerDelta,
) -> dict[str, Any]:
    """The object `logprobs` of one choice; the request asks for log-probabilities."""
    num = request.sampling.num_logprobs or 0
    found: list[TokenLogprobs | None] = []
    ids: list[int] = []
    if request.echo:
        found += prompt_logprobs(prompt_ids, num, eos_every_tokens=settings.eos_every_tokens)
        ids += prompt_ids
    found += delta.logprobs
    ids += delta.ids
    tokens = [_shown(token, request) for token in ids]
    offsets = [0]
    for token in tokens[:-1]:
        offsets.append(offsets[-1] + len(token))
    return {
        "text_offset": offsets[: len(tokens)],
        "token_logprobs": [None if one is None else one.logprob for one in found],
        "tokens": tokens,
        "top_logprobs": [None if one is None else _top(one, request) for one in found],
    }


def _top(one: TokenLogprobs, request: ParsedRequest) -> dict[str, float]:
    """The sampled token first, then the best ones."""
    return {
        _shown(token, request): logprob for token, logprob in ((one.token, one.logprob), *one.top)
    }


def _shown(token: int, request: ParsedRequest) -> str:
    if request.shows_token_ids:
        return f"token_id:{token}"
    return decode([token], skip_special_tokens=False)
