"""Token counts: usage of whole answers and streams, and `max_tokens`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from paceline.operations.validate.checks.check import Check
from paceline.operations.validate.checks.deployment import PROMPTS, Deployment
from paceline.operations.validate.target.answers import Answer, Usage, read_answer, read_stream
from paceline.operations.validate.target.target import COMPLETIONS
from paceline.operations.validate.tiers import Tier
from paceline.operations.validate.values import Group, Judgement, Missing, Violation, passed

_TOKENS = 20
_LIMITS = (1, 5, 21)
"""None is a default of a server: 16 is OpenAI's."""


async def _observe_whole(deployment: Deployment) -> list[Answer]:
    target = deployment.target
    return [
        read_answer(
            await target.complete(
                prompt=prompt, max_tokens=_TOKENS, temperature=0, return_token_ids=True
            )
        )
        for prompt in PROMPTS
    ]


def judge_whole(answers: list[Answer], tier: Tier) -> Judgement:
    """The counts add up and equal the tokens that the server shows."""
    num_shown = sum(_shown_tokens(answer) is not None for answer in answers)
    for answer in answers:
        _check_counts(answer)
    counted = "equal the tokens shown" if num_shown else "add up; the server shows no token ids"
    return passed(f"the counts of {len(answers)} answers {counted}", num_with_ids=num_shown)


async def _observe_streamed(deployment: Deployment) -> list[tuple[Answer, Answer]]:
    """For each prompt, the streamed and the whole answer."""
    target = deployment.target
    found = []
    for prompt in PROMPTS[:2]:
        body: dict[str, Any] = {
            "prompt": prompt, "max_tokens": _TOKENS, "temperature": 0, "return_token_ids": True,
        }  # fmt: skip
        stream = await target.stream(COMPLETIONS, **body, stream_options={"include_usage": True})
        found.append((read_stream(stream), read_answer(await target.complete(**body))))
    return found


def judge_streamed(observed: list[tuple[Answer, Answer]], tier: Tier) -> Judgement:
    """One usage per stream, equal to its tokens and to the prompt of the whole answer."""
    for streamed, whole in observed:
        if streamed.num_usages != 1:
            raise Violation(
                f"a stream with include_usage has {streamed.num_usages} usages, expected one"
            )
        _check_counts(streamed)
        prompts = streamed.expect_usage().prompt_tokens, whole.expect_usage().prompt_tokens
        if prompts[0] != prompts[1]:
            raise Violation(f"one prompt has {prompts[0]} tokens streamed and {prompts[1]} whole")
    return passed(f"the usage of {len(observed)} streams is right")


@dataclass(frozen=True, slots=True)
class Limited:
    """An answer within `max_tokens`."""

    max_tokens: int
    answer: Answer


async def _observe_limits(deployment: Deployment) -> list[Limited]:
    target = deployment.target
    found = []
    for limit in _LIMITS:
        body = {"max_tokens": limit, "temperature": 0, "return_token_ids": True}
        reply = await target.complete(prompt=PROMPTS[1], **body)
        found.append(Limited(limit, read_answer(reply)))
    return found


def judge_limits(observed: list[Limited], tier: Tier) -> Judgement:
    """`length` means exactly `max_tokens` tokens, any other end means no more."""
    for one in observed:
        choice, usage = one.answer.only(), one.answer.expect_usage()
        shown = _shown_tokens(one.answer)
        num = usage.completion_tokens if shown is None else shown
        if num > one.max_tokens:
            raise Violation(f"max_tokens={one.max_tokens} gives {num} tokens")
        if len(choice.finish_reasons) != 1:
            raise Violation(f"max_tokens={one.max_tokens}: no finish reason")
        reason = choice.finish_reasons[0]
        if reason not in ("length", "stop"):
            raise Violation(f"the finish reason is {reason!r}, expected length or stop")
        if reason == "length" and num != one.max_tokens:
            raise Violation(f"the finish reason is length after {num} of {one.max_tokens} tokens")
    return passed(f"max_tokens of {', '.join(str(one.max_tokens) for one in observed)} hold")


def _check_counts(answer: Answer) -> None:
    usage = answer.expect_usage()
    _check_sum(usage)
    shown = _shown_tokens(answer)
    if shown is not None and shown != usage.completion_tokens:
        raise Violation(
            f"usage counts {usage.completion_tokens} completion tokens, the answer has {shown}"
        )
    prompt = answer.prompt_token_ids
    if prompt is not None and len(prompt) != usage.prompt_tokens:
        raise Violation(
            f"usage counts {usage.prompt_tokens} prompt tokens, the prompt has {len(prompt)}"
        )


def _check_sum(usage: Usage) -> None:
    if usage.total_tokens != usage.prompt_tokens + usage.completion_tokens:
        raise Violation(
            f"usage has {usage.prompt_tokens} + {usage.completion_tokens} tokens and a total of "
            f"{usage.total_tokens}"
        )
    if not usage.prompt_tokens or not usage.completion_tokens:
        raise Violation(f"usage counts no tokens: {usage}")


def _shown_tokens(answer: Answer) -> int | None:
    """Tokens of all choices by their ids; None where a choice shows none."""
    ids = [choice.token_ids for choice in answer.choices.values()]
    if not ids:
        raise Missing("the answer has no choices")
    return None if any(one is None for one in ids) else sum(len(one or ()) for one in ids)


CHECKS = (
    Check(
        "usage",
        Group.API,
        "The usage of an answer equals its tokens",
        _observe_whole,
        judge_whole,
    ),
    Check(
        "usage-stream",
        Group.API,
        "The usage of a stream equals its tokens, once",
        _observe_streamed,
        judge_streamed,
    ),
    Check(
        "max-tokens",
        Group.API,
        "Answers keep to max_tokens, and `length` means that they reached it",
        _observe_limits,
        judge_limits,
    ),
)
