"""`EngineQueries`: ask an engine how probable the tokens of an answer are, or what it generates."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import aiohttp

from chaos.real_engines.answers.answer_judge import NUM_LOGPROBS, ForcedToken
from chaos.real_engines.request_kinds import COMPLETIONS

_PREFIX = "token_id:"
"""Before a token id, with `return_tokens_as_token_ids`."""


class EngineQueries:
    """Completions without drafts of the engines at `url`. Raises `RuntimeError` for errors."""

    def __init__(self, session: aiohttp.ClientSession, url: str, model: str) -> None:
        """The gateway at `url` must grant `prompt_logprobs`."""
        self._session = session
        self._url = url
        self._model = model

    async def force(
        self, prompt_ids: Sequence[int], answer_ids: Sequence[int]
    ) -> list[ForcedToken]:
        """One entry for each token of the answer, with the text before it forced."""
        choice = await self._complete([*prompt_ids, *answer_ids], max_tokens=1, echo=True)
        return _tokens(choice)[len(prompt_ids) : len(prompt_ids) + len(answer_ids)]

    async def generate(self, prompt_ids: Sequence[int], max_tokens: int) -> list[ForcedToken]:
        """The most probable token, again and again, including the one that ends the answer."""
        return _tokens(await self._complete(prompt_ids, max_tokens=max_tokens))

    async def best_logprob(self, prompt_ids: Sequence[int], allowed_ids: Collection[int]) -> float:
        """The log probability, among all tokens, of the most probable one of these."""
        choice = await self._complete(
            prompt_ids, max_tokens=1, allowed_token_ids=sorted(allowed_ids)
        )
        (token,) = _tokens(choice)
        return token.logprobs[token.token]

    async def _complete(self, prompt_ids: Sequence[int], **fields: Any) -> dict[str, Any]:
        body = {
            "model": self._model,
            "prompt": list(prompt_ids),
            "temperature": 0,
            "logprobs": NUM_LOGPROBS,
            "return_tokens_as_token_ids": True,
            "speculation": {"max_draft_length": 0},
            **fields,
        }
        async with self._session.post(self._url + COMPLETIONS, json=body) as response:
            answer = await response.json()
            if response.status != 200:
                raise RuntimeError(f"{self._url} answered {response.status}: {answer}")
        choice: dict[str, Any] = answer["choices"][0]
        return choice


def _tokens(choice: dict[str, Any]) -> list[ForcedToken]:
    """The tokens of a completion. The first one of a prompt has no log probabilities."""
    logprobs = choice["logprobs"]
    return [
        ForcedToken(_id(name), {_id(other): value for other, value in (top or {}).items()})
        for name, top in zip(logprobs["tokens"], logprobs["top_logprobs"], strict=True)
    ]


def _id(name: str) -> int:
    return int(name.removeprefix(_PREFIX))
