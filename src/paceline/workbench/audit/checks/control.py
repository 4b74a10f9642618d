"""Draw the places of drafted tokens again without drafts: whether they are wrong there too.

A server may apply a parameter of its own to every token, or show log-probabilities that are not
those of its sampler. Then drafted tokens do not follow the claim, and the others do not either.

The first token of an answer is never drafted. The control continues a prompt and the tokens before
a drafted one, chosen at random, by a single token with the same parameters. Penalties are the
exception: they do not count the tokens of a prompt. The control's tokens are added to a copy of the
evidence that found the fault. The e-value grows if they share the fault, and falls if they follow
the claim; its change is the Bayes factor of "the fault is in all tokens" to "these are right".
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from paceline.workbench.audit.checks.observations import Observer
from paceline.workbench.audit.server.server import Server, new_cache_salt
from paceline.workbench.audit.server.truth import Truth
from paceline.workbench.audit.statistics.evidence import Evidence
from paceline.workbench.audit.together import together
from paceline.workbench.audit.values import Logprobs, Request, Sample, is_ambiguous

_LOG_RATIO = math.log(100.0)
"""Tokens that follow the claim raise the e-value this much with probability 1/100 at most."""
_MOST = 4
"""Times the drafted tokens. Chosen by the normal approximation of the bets' sum: tokens that share
the fault have raised the e-value before, but for 1 in 1000."""
_NUM_CHOICES = 8
_MAX_REQUESTS = 16
"""In flight."""


@dataclass(slots=True)
class ControlResult:
    """What the tokens without drafts showed."""

    num_draws: int = 0
    log_ratio: float = 0.0
    """ln of the factor by which they change the e-value that found the fault."""
    is_finished: bool = False
    """At least as many tokens as the drafted ones were drawn, or fewer decided."""

    @property
    def is_wrong(self) -> bool:
        """Whether tokens without drafts have the fault as well."""
        return self.log_ratio >= _LOG_RATIO

    @property
    def is_right(self) -> bool:
        """Whether they do not have it."""
        return self.is_finished and not self.is_wrong


class Control:
    """Draws tokens without drafts at the places of drafted ones."""

    def __init__(
        self,
        server: Server,
        truth: Truth,
        observer: Observer,
        prompts: Sequence[str | tuple[int, ...]],
        *,
        seed: int,
    ) -> None:
        """`observer` is that of the samples; `prompts` are theirs by number, as token ids where
        the server shows them."""
        self._server = server
        self._truth = truth
        self._observer = observer
        self._prompts = prompts
        self._random = np.random.default_rng(seed)

    async def run(
        self, samples: Sequence[Sample], evidence: Evidence, result: ControlResult
    ) -> None:
        """Draw until the tokens decide; `evidence` is that of the samples, and stays as it is.

        Raises `ServerError`.
        """
        combined = copy.deepcopy(evidence)
        places = [
            (sample, position)
            for sample in samples
            for position in range(1, len(sample.tokens))
            if not any(map(is_ambiguous, sample.tokens[:position]))
        ]
        num_requests = min(_MAX_REQUESTS, math.ceil(len(places) / _NUM_CHOICES))
        while places and not result.is_finished:
            chosen = self._random.integers(len(places), size=num_requests)
            drawn = await together(self._draw(*places[index]) for index in chosen)
            judged = [one for some in drawn for one in some]
            combined.add(self._observer.observe(judged, noise_nats=evidence.noise_nats))
            result.num_draws += num_requests * _NUM_CHOICES
            result.log_ratio = combined.log_e - evidence.log_e
            is_equal = result.num_draws >= len(places)
            result.is_finished = (
                result.is_wrong
                or (is_equal and result.log_ratio <= -_LOG_RATIO)
                or result.num_draws >= _MOST * len(places)
            )

    async def _draw(self, sample: Sample, position: int) -> list[tuple[Sample, Sequence[Logprobs]]]:
        """Samples that end at this position, with the log-probabilities there."""
        support, before = self._server.support, tuple(sample.tokens[:position])
        prompt = self._prompts[sample.prompt]
        request = Request(
            prompt + "".join(map(str, before))
            if isinstance(prompt, str)
            else (*prompt, *(token for token in before if isinstance(token, int))),
            sample.case,
            1,
            n=_NUM_CHOICES if support.n else 1,
            num_logprobs=None if support.shows_token_ids else support.num_logprobs,
            # Blocks that were computed while drafts were verified are not read.
            extra=new_cache_salt() if support.cache_salt else {},
        )
        requests = [request] if support.n else [request] * _NUM_CHOICES
        requests = [replace(one, seed=self._seed()) for one in requests]
        found = await together(map(self._server.complete, requests))
        answers = [answer for some in found for answer in some if answer.tokens]
        case = replace(sample.case, presence_penalty=0.0, frequency_penalty=0.0)
        drawn = [Sample(sample.prompt, case, (*before, answer.tokens[0])) for answer in answers]
        if isinstance(prompt, str):
            return [
                (one, answer.logprobs[:1])
                for one, answer in zip(drawn, answers, strict=True)
                if answer.logprobs
            ]
        truths = await self._truth.logprobs((prompt, one.tokens) for one in drawn)
        return [(one, positions[-1:]) for one, positions in zip(drawn, truths, strict=True)]

    def _seed(self) -> int | None:
        """Every second request has one, on average, as those of the samples."""
        if not self._server.support.seed:
            return None
        number = int(self._random.integers(2**31))
        return number if number % 2 else None
