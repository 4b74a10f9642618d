"""Check greedy answers: every token must be the model's most likely one, up to near-ties.

The truth is the server's own log-probabilities after each prefix, or those of a reference. Where
drafts can be switched off, the same prompts are answered without them: a wrong token there is not
speculation's fault.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from paceline.workbench.audit.server.server import Server
from paceline.workbench.audit.server.truth import Truth
from paceline.workbench.audit.statistics.greedy import (
    NEAR_TIE_NATS,
    Deviation,
    first_difference,
    judge_greedy,
    number_format,
)
from paceline.workbench.audit.statistics.noise import measure_noise
from paceline.workbench.audit.together import together
from paceline.workbench.audit.values import GREEDY, Answer, Logprobs, Request, Token, is_ambiguous

_MAX_TOKENS = 40
_NUM_NOISE_PROMPTS = 3


@dataclass(frozen=True, slots=True)
class WrongToken:
    """A greedy token that the model would not have chosen."""

    prompt: str
    prompt_tokens: tuple[Token, ...]
    answer: tuple[Token, ...]
    deviation: Deviation


@dataclass(slots=True)
class GreedyResult:
    """What the greedy answers showed."""

    num_tokens: int = 0
    num_near_ties: int = 0
    wrong: list[WrongToken] = field(default_factory=list)
    wrong_without_drafts: list[WrongToken] = field(default_factory=list)
    num_compared: int = 0
    """Prompts answered with and without drafts."""
    num_different: int = 0
    """Of these: answers that differ, near-ties included."""
    noise_nats: float | None = None
    """Median difference between two computations of the same log-probabilities; None: unknown."""
    noise_rms_nats: float | None = None
    noise_high_nats: float | None = None
    """The 99 % quantile; it decides the number format."""
    number_format: str | None = None
    """None: unknown, and near-ties are those of bfloat16."""
    is_finished: bool = False

    @property
    def near_tie_nats(self) -> float:
        return NEAR_TIE_NATS[self.number_format or "bfloat16"]


async def check_greedy(
    server: Server, truth: Truth, prompts: Sequence[str], result: GreedyResult, given_format: str
) -> None:
    """Fill `result`. Raises `ServerError`.

    `given_format` is a key of `NEAR_TIE_NATS`, or `auto` to derive it from the noise.
    """
    num = server.support.num_logprobs or None
    shown = [
        Request(prompt, GREEDY, _MAX_TOKENS, num_logprobs=num)
        for prompt in prompts[:_NUM_NOISE_PROMPTS]
    ]
    own = [answers[0] for answers in await together(map(server.complete, shown))]
    if server.support.shows_token_ids:
        forced = await truth.logprobs((_ids(one), one.tokens) for one in own)
        differences = [
            abs(left[token] - right[token])
            for one, positions in zip(own, forced, strict=True)
            for left, right in zip(one.logprobs, positions, strict=False)
            for token in _best_of_both(left, right)
        ]
        noise = measure_noise(differences)
        if noise is not None:
            result.noise_nats, result.noise_rms_nats = noise.median_nats, noise.rms_nats
            result.noise_high_nats = noise.high_nats
            result.number_format = number_format(noise.high_nats)
        if given_format != "auto":
            result.number_format = given_format
        await _force(server, truth, prompts, result)
    else:
        result.number_format = None if given_format == "auto" else given_format
        rest = [Request(prompt, GREEDY, _MAX_TOKENS, num_logprobs=num) for prompt in prompts[3:]]
        own += [answers[0] for answers in await together(map(server.complete, rest))]
        for prompt, answer in zip(prompts, own, strict=True):
            if len(answer.logprobs) == len(answer.tokens):
                clear = [not any(map(is_ambiguous, known)) for known in answer.logprobs]
                tokens = tuple(itertools.compress(answer.tokens, clear))
                positions = tuple(itertools.compress(answer.logprobs, clear))
                _judge(prompt, replace(answer, tokens=tokens), positions, result)
    result.is_finished = result.num_tokens > 0


async def _force(
    server: Server, truth: Truth, prompts: Sequence[str], result: GreedyResult
) -> None:
    """Answer every prompt, without drafts too if possible, and judge by the truth."""

    drafted = [Request(prompt, GREEDY, _MAX_TOKENS) for prompt in prompts]
    answers = [found[0] for found in await together(map(server.complete, drafted))]
    positions = await truth.logprobs((_ids(one), one.tokens) for one in answers)
    for prompt, answer, known in zip(prompts, answers, positions, strict=True):
        _judge(prompt, answer, known, result)
    if server.support.off_switch is None:
        return
    without = [replace(request, drafts=False) for request in drafted]
    plain = [found[0] for found in await together(map(server.complete, without))]
    positions = await truth.logprobs((_ids(one), one.tokens) for one in plain)
    for prompt, one, other, known in zip(prompts, plain, answers, positions, strict=True):
        result.num_compared += 1
        result.num_different += first_difference(one.tokens, other.tokens) is not None
        result.wrong_without_drafts += _wrong_tokens(prompt, one, known, result)[1]


def _judge(
    prompt: str, answer: Answer, positions: Sequence[Logprobs], result: GreedyResult
) -> None:
    num_ties, wrong = _wrong_tokens(prompt, answer, positions, result)
    result.num_tokens += len(answer.tokens)
    result.num_near_ties += num_ties
    result.wrong += wrong


def _wrong_tokens(
    prompt: str, answer: Answer, positions: Sequence[Logprobs], result: GreedyResult
) -> tuple[int, list[WrongToken]]:
    """The number of near-ties, and the wrong tokens."""
    limit = result.near_tie_nats
    verdict = judge_greedy(answer.tokens, positions, near_tie_nats=limit)
    ids = _ids(answer)
    wrong = [WrongToken(prompt, ids, answer.tokens, one) for one in verdict.wrong]
    return len(verdict.near_ties), wrong


def _ids(answer: Answer) -> tuple[int, ...]:
    return answer.prompt_ids or ()


def _best_of_both(left: Logprobs, right: Logprobs) -> list[Token]:
    """The three likeliest tokens, where both name them."""
    best = sorted(left, key=lambda token: -left[token])[:3]
    return [token for token in best if token in right]
