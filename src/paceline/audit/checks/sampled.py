"""Check sampled answers by sequential tests: draw, find out the true distributions, bet.

Each prompt is continued many times by a few tokens. The first token is never drafted; the following
ones are drafted and verified in the next steps. Requests with a seed and without one take turns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from paceline.audit.checks.observations import Observer
from paceline.audit.server.server import Server, Support
from paceline.audit.server.truth import Truth
from paceline.audit.statistics.evidence import Evidence
from paceline.audit.statistics.power import smallest_bias
from paceline.audit.together import together
from paceline.audit.values import GREEDY, Logprobs, Request, Sample, SamplingCase, Token

FOUND_ABOVE = 1000.0
"""The e-value that finds an endpoint lossy; a lossless one ever reaches it with probability
1/1000."""
_NUM_CHOICES = 8
_TOKENS = 6
"""The first one and five that are drafted or follow from drafts."""
_LONG_TOKENS = 12
"""Of cases with penalties, which need repeated tokens."""
_REQUESTS_PER_CASE = 3
_NUM_CONTESTED = 3
_SEED_STEP = 1000
_BIAS = -1.5


@dataclass(slots=True)
class SampledResult:
    """What the sampled answers showed."""

    evidence: Evidence
    cases: tuple[SamplingCase, ...] = ()
    samples: list[Sample] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    prompt_ids: list[tuple[int, ...]] = field(default_factory=list)
    bias: float | None = None
    """The smallest bias that would have been found; None: no power yet."""
    num_samples: int = 0
    num_too_long: int = 0
    """Answers with more tokens than requested."""

    @property
    def is_found(self) -> bool:
        return self.evidence.log_e >= math.log(FOUND_ABOVE)


def sampling_cases(support: Support) -> list[SamplingCase]:
    """The cases that the server supports; `logit_bias` is completed for each prompt."""
    cases = [SamplingCase("temperature 1")]
    if support.top_k:
        cases += [
            SamplingCase("top-k", top_k=5),
            SamplingCase("temperature 0.6, top-k", temperature=0.6, top_k=8),
            SamplingCase("temperature 1.5, top-k", temperature=1.5, top_k=4),
            SamplingCase("top-k, top-p", temperature=0.9, top_k=10, top_p=0.85),
        ]
    else:
        cases += [SamplingCase("temperature 0.6", temperature=0.6)]
        cases += [SamplingCase("top-p", top_p=0.85)]
    top_k = 5 if support.top_k else 0
    if support.penalties:
        cases.append(
            SamplingCase("penalties", top_k=top_k, presence_penalty=1.0, frequency_penalty=0.5)
        )
    if support.logit_bias:
        cases.append(SamplingCase("logit bias", top_k=top_k, logit_bias=((0, 0.0),)))
    return cases


class SampledCheck:
    """Draws waves of samples until a bias is found, none can be, or the caller stops."""

    def __init__(
        self,
        server: Server,
        truth: Truth,
        result: SampledResult,
        *,
        target_bias: float,
        seed: int,
        on_wave: Callable[[SampledResult], None] = lambda result: None,
    ) -> None:
        self._server = server
        self._truth = truth
        self._result = result
        self._target_bias = target_bias
        self._seed = seed
        self._on_wave = on_wave
        self._num_requests = 0
        self._greedy: list[tuple[Token, ...]] = []

    async def run(self, prompts: Sequence[str], repetitive: Sequence[str]) -> None:
        """Fill the result until a bias is found or `target_bias` would have been.

        Raises `ServerError`.
        """
        result = self._result
        observer = Observer(keeps_claims=self._server.support.shows_token_ids)
        await self._choose_prompts(prompts, repetitive)
        result.cases = tuple(sampling_cases(self._server.support))
        wave = 0
        while not result.is_found and (result.bias is None or result.bias > self._target_bias):
            await self._wave(wave, observer)
            evidence = result.evidence
            result.bias = smallest_bias(
                evidence.top_probs, found_above=FOUND_ABOVE, noise_nats=evidence.noise_nats
            )
            self._on_wave(result)
            wave += 1

    async def _choose_prompts(self, prompts: Sequence[str], repetitive: Sequence[str]) -> None:
        """The prompts with the most contested tokens 2 to 5; then the repetitive ones."""
        num = self._server.support.num_logprobs or None
        everyone = [*prompts, *repetitive]
        requests = [Request(prompt, GREEDY, _TOKENS, num_logprobs=num) for prompt in everyone]
        answers = [found[0] for found in await together(map(self._server.complete, requests))]
        order = sorted(
            range(len(prompts)), key=lambda index: -_contested(answers[index].logprobs[1:])
        )
        for index in [*order[:_NUM_CONTESTED], *range(len(prompts), len(everyone))]:
            self._result.prompts.append(everyone[index])
            self._result.prompt_ids.append(answers[index].prompt_ids or ())
            self._greedy.append(answers[index].tokens)

    async def _wave(self, wave: int, observer: Observer) -> None:
        requests: list[tuple[int, Request]] = []
        num_requests = 1 if wave == 0 else _REQUESTS_PER_CASE
        for number in range(num_requests):
            for offset, case in enumerate(self._result.cases):
                turn = wave * num_requests + number + offset
                requests += self._requests(case, turn)
        drawn = await together(self._draw(index, one) for index, one in requests)
        judged = [sample for some in drawn for sample in some]
        if self._server.support.shows_token_ids:
            samples = [sample for sample, _ in judged]
            ids = self._result.prompt_ids
            truths = await self._truth.logprobs((ids[one.prompt], one.tokens) for one in samples)
            judged = list(zip(samples, truths, strict=True))
        noise = self._result.evidence.noise_nats
        self._result.evidence.add(observer.observe(judged, noise_nats=noise))
        self._result.num_samples += len(judged)
        self._result.samples += [sample for sample, _ in judged]

    def _requests(self, case: SamplingCase, turn: int) -> list[tuple[int, Request]]:
        """One request with several choices, or several requests if the server has no `n`."""
        num_repetitive = len(self._result.prompts) - _NUM_CONTESTED
        index = turn % _NUM_CONTESTED
        max_tokens = _TOKENS
        if case.penalizes and num_repetitive > 0:
            index = _NUM_CONTESTED + turn % num_repetitive
            max_tokens = _LONG_TOKENS
        if case.logit_bias:
            case = replace(case, logit_bias=_biased(self._greedy[index]))
        index = min(index, len(self._result.prompts) - 1)
        has_n = self._server.support.n
        ids = self._result.prompt_ids[index]
        request = Request(ids or self._result.prompts[index], case, max_tokens)
        if not self._server.support.shows_token_ids:
            request = replace(request, num_logprobs=self._server.support.num_logprobs)
        requests = []
        for _ in range(1 if has_n else _NUM_CHOICES):
            self._num_requests += 1
            is_seeded = self._num_requests % 2 == 0
            seed = self._seed + _SEED_STEP * self._num_requests if is_seeded else None
            n = _NUM_CHOICES if has_n else 1
            requests.append((index, replace(request, n=n, seed=seed)))
        return requests

    async def _draw(self, index: int, request: Request) -> list[tuple[Sample, Sequence[Logprobs]]]:
        """Samples, with their own log-probabilities where these were requested."""
        answers = await self._server.complete(request)
        samples: list[tuple[Sample, Sequence[Logprobs]]] = []
        for answer in answers:
            self._result.num_too_long += len(answer.tokens) > request.max_tokens
            if request.num_logprobs is None or len(answer.logprobs) == len(answer.tokens):
                sample = Sample(index, request.case, answer.tokens)
                samples.append((sample, answer.logprobs))
        return samples


def _contested(positions: Sequence[Logprobs]) -> float:
    """How much the tokens at these positions would show a bias: the sum of p (1 - p)."""
    tops = [min(1.0, math.exp(max(known.values()))) for known in positions]
    return sum(top * (1 - top) for top in tops)


def _biased(greedy: Sequence[Token]) -> tuple[tuple[Token, float], ...]:
    """A negative bias on the likeliest second and third tokens."""
    ids = dict.fromkeys(token for token in greedy[1:3] if isinstance(token, int))
    return tuple((token, _BIAS) for token in ids)
