"""Check sampled answers by sequential tests: draw, find out the true distributions, bet.

Each prompt is continued many times by a few tokens. The first token is never drafted; the following
ones are drafted and verified in the next steps. Requests with a seed and without one take turns,
once the server is known to survive a seed.

Plain cases come first, a few answers at a time, each judged before more are drawn: a server that
verifies drafts wrongly may end at any of them, at top-k for certain, and the evidence until then
counts.

Where the server counts draft tokens, the answers in flight are reduced until it drafts under them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from paceline.workbench.audit.checks.control import Control, ControlResult
from paceline.workbench.audit.checks.drafting import DraftUse
from paceline.workbench.audit.checks.observations import Observer
from paceline.workbench.audit.server.server import Server, Support
from paceline.workbench.audit.server.truth import Truth
from paceline.workbench.audit.statistics.evidence import Evidence
from paceline.workbench.audit.statistics.power import smallest_bias
from paceline.workbench.audit.together import together
from paceline.workbench.audit.values import GREEDY, Logprobs, Request, Sample, SamplingCase, Token

FOUND_ABOVE = 1000.0
"""The e-value that finds an endpoint lossy; a lossless one ever reaches it with probability
1/1000."""
_NUM_CHOICES = 8
_TOKENS = 6
"""The first one and five that are drafted or follow from drafts."""
_LONG_TOKENS = 12
"""Of cases with penalties, which need repeated tokens."""
_FIRST_WAVES = (1, 1, 1, 1, 2, 4, 8)
"""Answers, one per request."""
_REQUESTS_PER_CASE = 3
_REQUESTS_PER_WAVE = 12
"""At least, so that few cases keep the server busy too."""
_ANSWERS_AT_ONCE = (16, 4, 1)
"""In flight, tried in turn on a server that does not draft under more."""
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
    seconds: float = 0.0
    """Time that sampling took so far."""
    num_too_long: int = 0
    """Answers with more tokens than requested."""
    drafting: DraftUse = field(default_factory=DraftUse)
    """Draft tokens as the server counts them, while the judged answers were drawn."""
    control: ControlResult = field(default_factory=ControlResult)

    @property
    def is_found(self) -> bool:
        return self.evidence.log_e >= math.log(FOUND_ABOVE)

    @property
    def is_control_wrong(self) -> bool:
        """Whether tokens that are never drafted are wrong as well.

        Then the claim is wrong, and bets on dependence are no evidence: they rest on it too.
        """
        return self.evidence.control.log_e >= math.log(FOUND_ABOVE) or self.control.is_wrong


PLAIN_CASES = (SamplingCase("temperature 1"), SamplingCase("temperature 0.6", temperature=0.6))
"""What every server supports."""


def sampling_cases(support: Support) -> list[SamplingCase]:
    """The cases that the server supports; `logit_bias` is completed for each prompt."""
    cases = [PLAIN_CASES[0]]
    if support.top_k:
        cases += [
            SamplingCase("top-k", top_k=5),
            SamplingCase("temperature 0.6, top-k", temperature=0.6, top_k=8),
            SamplingCase("temperature 1.5, top-k", temperature=1.5, top_k=4),
        ]
        top_p = 0.85 if support.top_p else 1.0
        name = "top-k, top-p" if support.top_p else "temperature 0.9, top-k"
        cases.append(SamplingCase(name, temperature=0.9, top_k=10, top_p=top_p))
    else:
        cases.append(PLAIN_CASES[1])
    if support.top_p and not support.top_k:
        cases.append(SamplingCase("top-p", top_p=0.85))
    top_k = 5 if support.top_k else 0
    if support.penalties:
        cases.append(
            SamplingCase("penalties", top_k=top_k, presence_penalty=1.0, frequency_penalty=0.5)
        )
    if support.logit_bias:
        cases.append(SamplingCase("logit bias", top_k=top_k, logit_bias=((0, 0.0),)))
    return cases


class SampledCheck:
    """Draws waves of samples until a bias is found, none can be, or the caller stops.

    Call `choose_prompts`, then `begin`, `settle`, and `run`, once or more. Call `control` once
    a bias is found.
    """

    def __init__(
        self,
        server: Server,
        truth: Truth,
        result: SampledResult,
        *,
        seed: int,
        on_wave: Callable[[SampledResult], None] = lambda result: None,
    ) -> None:
        self._server = server
        self._truth = truth
        self._result = result
        self._seed = seed
        self._on_wave = on_wave
        self._observer = Observer(keeps_claims=server.support.shows_token_ids)
        self._num_requests = 0
        self._num_waves = 0
        self._answers_at_once: int | None = None
        """None: as many as the wave has."""
        self._greedy: list[tuple[Token, ...]] = []

    async def begin(self, cases: Sequence[SamplingCase]) -> None:
        """Draw the first answers, few at a time, until a bias is found. Raises `ServerError`."""
        self._result.cases = tuple(cases)
        turn = 0
        for num in _FIRST_WAVES:
            if self._result.is_found:
                return
            requests: list[tuple[int, Request]] = []
            for _ in range(num):
                requests += self._requests(cases[turn % len(cases)], turn, num_choices=1)
                turn += 1
            await self._draw_and_judge(requests)

    async def settle(self, cases: Sequence[SamplingCase]) -> None:
        """Reduce the answers in flight until the server drafts under them. Raises `ServerError`.

        Does nothing where the server does not count draft tokens. The tokens drawn here are no part
        of the pooled evidence, and their drafts are not counted.
        """
        result = self._result
        if not result.drafting.is_counted or result.is_found:
            return
        for limit in (None, *_ANSWERS_AT_ONCE):
            self._answers_at_once = limit
            result.drafting = DraftUse()
            await self._draw_and_judge(self._wave(cases), may_lack_drafts=True)
            if result.is_found or result.drafting.is_enough:
                break
        else:
            self._answers_at_once = None
        result.drafting = DraftUse()

    async def control(self) -> None:
        """Draw the places of the samples again without drafts. Raises `ServerError`."""
        result = self._result
        prompts: Sequence[str | tuple[int, ...]] = result.prompts
        if self._server.support.shows_token_ids:
            prompts = result.prompt_ids
        control = Control(self._server, self._truth, self._observer, prompts, seed=self._seed)
        await control.run(result.samples, result.evidence, result.control)

    async def run(self, cases: Sequence[SamplingCase], *, target_bias: float) -> None:
        """Fill the result until a bias is found, or these cases alone would show `target_bias`.

        Raises `ServerError`.
        """
        result, evidence = self._result, self._result.evidence
        result.cases = tuple(dict.fromkeys([*result.cases, *cases]))
        num_before = len(evidence.top_probs)
        bias: float | None = None
        while not result.is_found and (bias is None or bias > target_bias):
            await self._draw_and_judge(self._wave(cases))
            bias = self._smallest_bias(evidence.top_probs[num_before:])

    def _smallest_bias(self, top_probs: Sequence[float]) -> float | None:
        noise_nats = self._result.evidence.noise_nats
        return smallest_bias(top_probs, found_above=FOUND_ABOVE, noise_nats=noise_nats)

    async def choose_prompts(self, prompts: Sequence[str], repetitive: Sequence[str]) -> None:
        """The prompts with the most contested tokens 2 to 5; then the repetitive ones.

        Does nothing once they are chosen. Raises `ServerError`.
        """
        if self._result.prompts:
            return
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

    def _wave(self, cases: Sequence[SamplingCase]) -> list[tuple[int, Request]]:
        requests: list[tuple[int, Request]] = []
        num_requests = max(_REQUESTS_PER_CASE, math.ceil(_REQUESTS_PER_WAVE / len(cases)))
        for number in range(num_requests):
            for offset, case in enumerate(cases):
                turn = self._num_waves * num_requests + number + offset
                requests += self._requests(case, turn)
        self._num_waves += 1
        return requests

    async def _draw_and_judge(
        self, requests: Sequence[tuple[int, Request]], *, may_lack_drafts: bool = False
    ) -> None:
        start_s = time.monotonic()
        try:
            await self._draw_and_add(requests, may_lack_drafts=may_lack_drafts)
        finally:
            self._result.seconds += time.monotonic() - start_s
        self._result.bias = self._smallest_bias(self._result.evidence.top_probs)
        self._on_wave(self._result)

    async def _draw_and_add(
        self, requests: Sequence[tuple[int, Request]], *, may_lack_drafts: bool
    ) -> None:
        judged = await self._draw_all(requests)
        if self._server.support.shows_token_ids:
            samples = [sample for sample, _ in judged]
            ids = self._result.prompt_ids
            truths = await self._truth.logprobs((ids[one.prompt], one.tokens) for one in samples)
            judged = list(zip(samples, truths, strict=True))
        noise = self._result.evidence.noise_nats
        self._result.evidence.add(
            self._observer.observe(judged, noise_nats=noise, may_lack_drafts=may_lack_drafts)
        )
        self._result.num_samples += len(judged)
        self._result.samples += [sample for sample, _ in judged]

    async def _draw_all(
        self, requests: Sequence[tuple[int, Request]]
    ) -> list[tuple[Sample, Sequence[Logprobs]]]:
        """Samples of all requests; the drafts meanwhile are counted."""
        size = len(requests)
        if self._answers_at_once is not None:
            size = max(1, self._answers_at_once // max(one.n for _, one in requests))
        before = await self._server.num_drafted()
        judged: list[tuple[Sample, Sequence[Logprobs]]] = []
        for start in range(0, len(requests), size):
            part = requests[start : start + size]
            for some in await together(self._draw(index, one) for index, one in part):
                judged += some
        after = await self._server.num_drafted()
        num_tokens = sum(max(0, len(sample.tokens) - 1) for sample, _ in judged)
        self._result.drafting.add(before, after, num_tokens)
        return judged

    def _requests(
        self, case: SamplingCase, turn: int, num_choices: int = _NUM_CHOICES
    ) -> list[tuple[int, Request]]:
        """One request with several choices, or several requests if the server has no `n`."""
        num_choices = min(num_choices, self._answers_at_once or num_choices)
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
        for _ in range(1 if has_n else num_choices):
            self._num_requests += 1
            is_seeded = self._server.support.seed and self._num_requests % 2 == 0
            seed = self._seed + _SEED_STEP * self._num_requests if is_seeded else None
            n = num_choices if has_n else 1
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
