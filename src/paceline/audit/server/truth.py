"""The model's true log-probabilities after a prefix, from requests that draft nothing.

A request for one token computes the prompt and samples once; no draft is in play. Where `echo` with
`logprobs` scores prompts, one request gives all positions of an answer. Results are kept, so
answers that share prefixes share requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from paceline.audit.server.server import Server
from paceline.audit.server.transport import ServerError
from paceline.audit.together import together
from paceline.audit.values import GREEDY, Logprobs, Request, Token

_MAX_KEPT = 200_000

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
            await together(self._score(whole, first) for whole, first in spans.items())
        else:
            await together(map(self._ask, dict.fromkeys(one for some in missing for one in some)))
        return [[self._kept[one] for one in some] for some in prefixes]

    async def _ask(self, prefix: tuple[Token, ...]) -> None:
        self._kept[prefix] = (await self._scored(prefix, len(prefix)))[0]

    async def _score(self, whole: tuple[Token, ...], first: int) -> None:
        """Keep the log-probabilities after the first `first` tokens, and so on to the end."""
        for end, found in enumerate(await self._scored(whole, first), first):
            self._kept.setdefault(whole[:end], found)

    async def _scored(self, prefix: tuple[Token, ...], first: int) -> Sequence[Logprobs]:
        """The log-probabilities after the first `first` tokens, and so on; needs one request.

        One token is generated; with `echo` those of the prefix come before it.
        """
        expected = len(prefix) - first + 1
        ids = tuple(token for token in prefix if isinstance(token, int))
        num = self._server.support.num_logprobs
        extra = {"echo": True} if expected > 1 else {}
        request = Request(ids, GREEDY, 1, num_logprobs=num, extra=extra)
        [answer] = await self._server.complete(request, last=expected)
        if len(answer.logprobs) != expected:
            raise ServerError(
                f"the server gives {len(answer.logprobs)} log-probabilities for {expected} tokens"
            )
        return answer.logprobs
