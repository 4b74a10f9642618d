"""The model's true log-probabilities after a prefix, from requests that draft nothing.

A request for one token computes the prompt and samples once; no draft is in play. Where `echo` with
`logprobs` scores prompts, one prompt gives all positions of an answer. Results are kept, so
answers that share prefixes share requests, and several prompts share one where the server allows.

A prefix cache may hold blocks of an answer that were computed while drafts were verified. A fault
that corrupts them would then change the truth as well, and stay hidden. Scored prompts do not read
vLLM's cache, and `cache_salt` keeps the others from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from paceline.workbench.audit.server.server import Server, new_cache_salt
from paceline.workbench.audit.server.transport import ServerError
from paceline.workbench.audit.together import together
from paceline.workbench.audit.values import GREEDY, Logprobs, Request, Token

_MAX_KEPT = 200_000
_MAX_PROMPTS = 16
"""In one request. Paceline's gateway takes 64, and fewer leave work for requests in parallel."""

Continuation = tuple[Sequence[Token], Sequence[Token]]
"""A prompt and its answer."""


class Truth:
    """True log-probabilities, by prefix, as one server computes them."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._kept: dict[tuple[Token, ...], Logprobs] = {}

    async def logprobs(self, continuations: Iterable[Continuation]) -> list[list[Logprobs]]:
        """The log-probabilities before each token of each answer. Raises `ServerError`."""
        if len(self._kept) > _MAX_KEPT:
            self._kept.clear()
        prefixes = [
            [(*prompt, *answer[:end]) for end in range(len(answer))]
            for prompt, answer in continuations
        ]
        missing = [[one for one in some if one not in self._kept] for some in prefixes]
        if self._server.support.scores_prompts:
            # The longest missing prefix contains the others; one score covers them all.
            spans = {some[-1]: len(some[0]) for some in missing if some}
        else:
            spans = {one: len(one) for some in missing for one in some}
        size = _MAX_PROMPTS if self._server.support.prompt_lists else 1
        prompts = list(spans)
        parts = [prompts[start : start + size] for start in range(0, len(prompts), size)]
        await together(self._score({one: spans[one] for one in part}) for part in parts)
        return [[self._kept[one] for one in some] for some in prefixes]

    async def _score(self, spans: Mapping[tuple[Token, ...], int]) -> None:
        """Keep what follows the first tokens of each prompt, of this number, and so on to its end.

        Needs one request. One token is generated; with `echo` those of the prompt come before it.
        """
        support = self._server.support
        ids = tuple(tuple(token for token in prompt if isinstance(token, int)) for prompt in spans)
        expected = [len(prompt) - first + 1 for prompt, first in spans.items()]
        extra: dict[str, object] = {"echo": True} if max(expected) > 1 else {}
        if support.cache_salt:
            extra |= new_cache_salt()
        prompt = ids if len(ids) > 1 else ids[0]
        request = Request(prompt, GREEDY, 1, num_logprobs=support.num_logprobs, extra=extra)
        answers = await self._server.complete(request, last=max(expected))
        if len(answers) != len(ids):
            raise ServerError(f"{len(ids)} prompts got {len(answers)} answers", 200)
        for (whole, first), num, answer in zip(spans.items(), expected, answers, strict=True):
            if len(answer.logprobs) < num:
                raise ServerError(
                    f"the server gives {len(answer.logprobs)} log-probabilities for {num} tokens",
                    200,
                )
            for end, found in enumerate(answer.logprobs[-num:], first):
                self._kept.setdefault(whole[:end], found)
