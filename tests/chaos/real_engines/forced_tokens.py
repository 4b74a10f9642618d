"""Ask an engine how probable each token of a given answer is."""

from __future__ import annotations

from collections.abc import Sequence

import aiohttp

from chaos.real_engines.answer_judge import ForcedToken
from chaos.real_engines.request_kinds import COMPLETIONS

_NUM_LOGPROBS = 20
"""The most that vLLM and the gateway allow."""


async def fetch_forced_tokens(
    session: aiohttp.ClientSession,
    url: str,
    model: str,
    prompt_ids: Sequence[int],
    answer_ids: Sequence[int],
    *,
    as_ids: bool,
) -> list[ForcedToken]:
    """One entry for each token of the answer, with the text before it forced.

    `as_ids` names tokens by their ids instead of their texts. The gateway must grant
    `prompt_logprobs`. Raises `RuntimeError` for any other answer than the engine's.
    """
    body = {
        "model": model,
        "prompt": [*prompt_ids, *answer_ids],
        "max_tokens": 1,
        "temperature": 0,
        "echo": True,
        "logprobs": _NUM_LOGPROBS,
        "return_tokens_as_token_ids": as_ids,
    }
    async with session.post(url + COMPLETIONS, json=body) as response:
        answer = await response.json()
        if response.status != 200:
            raise RuntimeError(f"{url} answered {response.status}: {answer}")
    logprobs = answer["choices"][0]["logprobs"]
    end = len(prompt_ids) + len(answer_ids)
    tokens = logprobs["tokens"][len(prompt_ids) : end]
    tops = logprobs["top_logprobs"][len(prompt_ids) : end]
    return [ForcedToken(token, top or {}) for token, top in zip(tokens, tops, strict=True)]
