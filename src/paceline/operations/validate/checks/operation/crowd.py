"""Many requests at once: answers are not mixed up, and overload is refused, not failed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from paceline.operations.validate.checks.check import Check
from paceline.operations.validate.checks.deployment import Deployment, together
from paceline.operations.validate.target.answers import Answer, read_answer
from paceline.operations.validate.target.exchange import Reply
from paceline.operations.validate.tiers import Tier
from paceline.operations.validate.values import Group, Judgement, Missing, Violation, passed

_NUM_TOGETHER = 16
_OVERLOAD_FACTOR = 3
_TOKENS = 16
_REFUSALS = (429, 503)


@dataclass(frozen=True, slots=True)
class Echoed:
    """A request whose answer repeats its prompt."""

    prompt: str
    answer: Answer


async def _observe_apart(deployment: Deployment) -> list[Echoed]:
    target = deployment.target
    prompts = [f"# Request number {number}\nvalue = " for number in range(_NUM_TOGETHER)]
    asked = [
        target.complete(prompt=prompt, max_tokens=_TOKENS, temperature=0, echo=True)
        for prompt in prompts
    ]
    replies = await together(asked)
    if any(reply.status == 400 for reply in replies):
        raise Missing(f"the server refuses echo: {replies[0].text}")
    return [
        Echoed(prompt, read_answer(reply)) for prompt, reply in zip(prompts, replies, strict=True)
    ]


def judge_apart(echoed: list[Echoed], tier: Tier) -> Judgement:
    """Every answer begins with its own prompt, and continues it."""
    if not any(one.answer.only().text.startswith("# Request") for one in echoed):
        raise Missing("the server ignores echo, so answers do not show their prompts")
    for one in echoed:
        text = one.answer.only().text
        if not text.startswith(one.prompt) or len(text) == len(one.prompt):
            raise Violation(
                f"the answer to {one.prompt!r} is {text[:60]!r}: it belongs to another request"
            )
    return passed(f"{len(echoed)} answers at once belong to their prompts")


@dataclass(frozen=True, slots=True)
class Overload:
    """Replies to more requests at once than the tier's load, and one reply after them."""

    replies: list[Reply]
    after: Reply


async def _observe_overload(deployment: Deployment) -> Overload:
    deployment.refuse_to_load("overload")
    target = deployment.target
    num = _OVERLOAD_FACTOR * deployment.tier.concurrency
    asked = [
        target.complete(prompt=f"# {number}\n", max_tokens=deployment.tier.max_tokens)
        for number in range(num)
    ]
    return Overload(await together(asked), await target.complete(prompt="a", max_tokens=1))


def judge_overload(observed: Overload, tier: Tier) -> Judgement:
    """Each request is answered, or refused with Retry-After; then the server answers again."""
    counts = Counter(reply.status for reply in observed.replies)
    for reply in observed.replies:
        if reply.status == 200:
            read_answer(reply)
        elif reply.status not in _REFUSALS:
            raise Violation(
                f"{_OVERLOAD_FACTOR} times the load gives status {reply.status}: {reply.text}"
            )
        elif "retry-after" not in reply.headers:
            raise Violation(f"a refusal with status {reply.status} has no Retry-After")
    if not counts[200]:
        raise Violation(f"none of {len(observed.replies)} requests at once was answered")
    observed.after.expect_ok()
    num, num_answered = len(observed.replies), counts[200]
    rest = "all were answered" if num == num_answered else f"{num_answered} were answered"
    refused = "" if num == num_answered else ", the rest refused with Retry-After"
    return passed(
        f"of {num} requests at once {rest}{refused}", num_requests=num, num_answered=num_answered
    )


CHECKS = (
    Check(
        "answers-apart",
        Group.OPERATION,
        "Answers to requests at once are not mixed up",
        _observe_apart,
        judge_apart,
    ),
    Check(
        "overload",
        Group.OPERATION,
        "Three times the tier's load is answered or refused with Retry-After",
        _observe_overload,
        judge_overload,
    ),
)
