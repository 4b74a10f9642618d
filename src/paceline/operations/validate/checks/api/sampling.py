"""Stop strings, log-probabilities, `n` and seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from paceline.operations.validate.checks.check import Check
from paceline.operations.validate.checks.deployment import PROMPTS, Deployment, together
from paceline.operations.validate.target.answers import Answer, read_answer, read_stream
from paceline.operations.validate.target.counters import MetricFamily
from paceline.operations.validate.target.exchange import Reply
from paceline.operations.validate.target.target import COMPLETIONS, Target
from paceline.operations.validate.tiers import Tier
from paceline.operations.validate.values import Group, Judgement, Missing, Violation, passed

_TOKENS = 32
_NUM_TRIES = 3
_NUM_CHOICES = 3
_NUM_SEEDS = 6
_NUM_LOGPROBS = 3
_SUM_TOLERANCE = 0.01
"""Of probabilities: rounding in 16-bit formats."""
_BEST_TOLERANCE_NATS = 0.25
"""Two candidates this close are a near-tie in bfloat16."""
_ROUNDING_NATS = 1e-3
"""A logarithm of 1 may be rounded to slightly above 0."""
_STOP_CHARS = 3


@dataclass(frozen=True, slots=True)
class Stopped:
    """A greedy answer, and the same request with a stop string from its middle."""

    whole: str
    stop: str
    answers: tuple[Answer, ...]
    """Whole and streamed, of every attempt."""


async def _observe_stop(deployment: Deployment) -> Stopped:
    target = deployment.target
    body: dict[str, Any] = {"prompt": PROMPTS[1], "max_tokens": _TOKENS, "temperature": 0}
    whole = read_answer(await target.complete(**body)).only().text
    stop = choose_stop(whole)
    answers: tuple[Answer, ...] = ()
    for _ in range(_NUM_TRIES):
        reply = await target.complete(**body, stop=[stop])
        stream = await target.stream(COMPLETIONS, **body, stop=[stop])
        answers = (*answers, read_answer(reply), read_stream(stream))
        if any(_follows(answer, whole, stop) for answer in answers):
            break
    return Stopped(whole, stop, answers)


def choose_stop(text: str) -> str:
    """A short string from the middle of a text. `Missing` if the text is too short.

    >>> choose_stop("x = a + b")
    ' a '
    """
    middle = len(text) // 3
    stop = text[middle : middle + _STOP_CHARS]
    if len(stop) < _STOP_CHARS or text.startswith(stop):
        raise Missing(f"the greedy answer {text!r} has no middle to stop at")
    return stop


def judge_stop(observed: Stopped, tier: Tier) -> Judgement:
    """No answer contains the stop string, and one is the text before it."""
    stop = observed.stop
    for answer in observed.answers:
        if stop in answer.only().text:
            raise Violation(f"stop={stop!r} gives {answer.only().text!r}")
        if answer.only().finish_reasons != ["stop"] and _is_prefix(answer, observed):
            raise Violation(
                f"an answer that stops at {stop!r} has the finish reasons "
                f"{answer.only().finish_reasons}"
            )
    for kind, chosen in (("whole", observed.answers[::2]), ("streamed", observed.answers[1::2])):
        if not any(_follows(answer, observed.whole, stop) for answer in chosen):
            expected = observed.whole.partition(stop)[0]
            raise Violation(
                f"stop={stop!r}: the {kind} answer is {chosen[0].only().text!r}, expected "
                f"{expected!r}"
            )
    return passed(f"whole and streamed answers stop before {stop!r}")


def _is_prefix(answer: Answer, observed: Stopped) -> bool:
    return observed.whole.partition(observed.stop)[0] == answer.only().text


def _follows(answer: Answer, whole: str, stop: str) -> bool:
    return answer.only().text == whole.partition(stop)[0]


async def _observe_logprobs(deployment: Deployment) -> Reply:
    reply = await deployment.target.complete(
        prompt=PROMPTS[0], max_tokens=_TOKENS, temperature=0, logprobs=_NUM_LOGPROBS
    )
    if reply.status == 400:
        raise Missing(f"the server shows no log-probabilities: {reply.text}")
    return reply


def judge_logprobs(reply: Reply, tier: Tier) -> Judgement:
    """One entry per token, probabilities of at most 1, and the greedy token among the best."""
    answer = read_answer(reply)
    shown = answer.only().logprobs
    if shown is None:
        raise Missing("the answer has no log-probabilities although they were requested")
    tokens, chosen, tops = (
        _list(shown, name) for name in ("tokens", "token_logprobs", "top_logprobs")
    )
    num = answer.expect_usage().completion_tokens
    if not len(tokens) == len(chosen) == len(tops) == num:
        raise Violation(
            f"{num} tokens have {len(tokens)} names, {len(chosen)} log-probabilities and "
            f"{len(tops)} lists of candidates"
        )
    for position, (logprob, top) in enumerate(zip(chosen, tops, strict=True)):
        _check_position(position, logprob, top)
    return passed(f"log-probabilities of {num} tokens are consistent", num_tokens=num)


def _check_position(position: int, logprob: Any, top: Any) -> None:
    if not isinstance(top, Mapping) or not top:
        raise Violation(f"token {position} has no candidates")
    values = [logprob, *top.values()]
    if not all(isinstance(one, int | float) and one <= _ROUNDING_NATS for one in values):
        raise Violation(f"token {position} has log-probabilities that are not below 0: {values}")
    total = sum(math.exp(one) for one in top.values())
    if total > 1 + _SUM_TOLERANCE:
        raise Violation(f"the candidates of token {position} have a probability of {total:.3f}")
    if logprob < max(top.values()) - _BEST_TOLERANCE_NATS:
        raise Violation(
            f"the greedy token {position} has {logprob:.3f}, a candidate {max(top.values()):.3f}"
        )


def _list(shown: Mapping[str, Any], name: str) -> list[Any]:
    value = shown.get(name)
    if not isinstance(value, list):
        raise Violation(f"logprobs.{name} is {value!r}, expected a list")
    return value


async def _observe_choices(deployment: Deployment) -> Answer:
    reply = await deployment.target.complete(
        prompt=PROMPTS[0], max_tokens=_TOKENS, temperature=1, n=_NUM_CHOICES
    )
    if reply.status == 400:
        raise Missing(f"the server refuses n={_NUM_CHOICES}: {reply.text}")
    return read_answer(reply)


def judge_choices(answer: Answer, tier: Tier) -> Judgement:
    """As many choices as requested, with their own indexes and texts."""
    if sorted(answer.choices) != list(range(_NUM_CHOICES)):
        raise Violation(f"n={_NUM_CHOICES} gives choices with indexes {sorted(answer.choices)}")
    texts = {choice.text for choice in answer.choices.values()}
    if len(texts) == 1:
        raise Violation(f"n={_NUM_CHOICES} sampled answers are one text")
    num = answer.expect_usage().completion_tokens
    if num > _NUM_CHOICES * _TOKENS:
        raise Violation(f"{num} tokens in {_NUM_CHOICES} answers of at most {_TOKENS}")
    return passed(f"n={_NUM_CHOICES} gives {_NUM_CHOICES} answers")


@dataclass(frozen=True, slots=True)
class Seeded:
    """Sampled texts by seed, and one seed several times."""

    of_seeds: tuple[str, ...]
    of_one: tuple[str, ...]
    promises_repeats: bool
    """Whether the server can be asked for answers that repeat."""


async def _observe_seeds(deployment: Deployment) -> Seeded:
    target = deployment.target
    body: dict[str, Any] = {"prompt": PROMPTS[0], "max_tokens": _TOKENS, "temperature": 1}
    promises_repeats = await _drafts_nothing(target)
    if not promises_repeats and target.identity.kind == "paceline":
        capped = {**body, "speculation": {"max_draft_length": 0}}
        if (await target.complete(**capped, seed=1)).status == 200:
            body, promises_repeats = capped, True
    replies = await together([target.complete(**body, seed=n) for n in range(_NUM_SEEDS)])
    repeats = [await target.complete(**body, seed=7) for _ in range(_NUM_TRIES)]
    texts = [read_answer(reply).only().text for reply in (*replies, *repeats)]
    return Seeded(tuple(texts[:_NUM_SEEDS]), tuple(texts[_NUM_SEEDS:]), promises_repeats)


async def _drafts_nothing(target: Target) -> bool:
    """Whether a vLLM shows metrics without counters of drafts."""
    try:
        counters = await target.counters()
    except (Missing, Violation):
        return False
    return counters.dialect == "vllm" and MetricFamily.DRAFTED not in counters.values


def judge_seeds(observed: Seeded, tier: Tier) -> Judgement:
    """Seeds give different texts; one seed repeats its text where the server promises it."""
    if len(set(observed.of_seeds)) == 1:
        raise Violation(f"{len(observed.of_seeds)} seeds give one text: {observed.of_seeds[0]!r}")
    repeats = len(set(observed.of_one)) < len(observed.of_one)
    if observed.promises_repeats and not repeats:
        raise Violation(f"one seed gives {len(observed.of_one)} different texts without drafts")
    num = len(set(observed.of_seeds))
    tail = "repeats its text" if repeats else "gives several texts, as speculation may"
    return passed(
        f"{len(observed.of_seeds)} seeds give {num} texts; one seed {tail}",
        num_texts=num, repeats=repeats,
    )  # fmt: skip


CHECKS = (
    Check(
        "stop-string",
        Group.API,
        "A stop string ends whole and streamed answers before it",
        _observe_stop,
        judge_stop,
    ),
    Check(
        "logprobs",
        Group.API,
        "Log-probabilities cover every token and are consistent",
        _observe_logprobs,
        judge_logprobs,
    ),
    Check(
        "choices",
        Group.API,
        "n gives that many sampled answers",
        _observe_choices,
        judge_choices,
    ),
    Check(
        "seeds",
        Group.API,
        "Seeds decide sampled answers",
        _observe_seeds,
        judge_seeds,
    ),
)
