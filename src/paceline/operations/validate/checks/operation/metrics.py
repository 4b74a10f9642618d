"""The metrics count what was sent: requests, tokens, prefix cache hits."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.operations.validate.checks.check import Check
from paceline.operations.validate.checks.deployment import PROMPTS, Deployment, together
from paceline.operations.validate.target.answers import read_answer
from paceline.operations.validate.target.counters import Counters, MetricFamily
from paceline.operations.validate.tiers import Tier
from paceline.operations.validate.values import Group, Judgement, Missing, Violation, passed

_NUM_REQUESTS = 8
_TOKENS = 10
_PREFIX_CHARS = 1200
"""Some blocks of 16 tokens with any tokenizer."""
_NUM_REPEATS = 6
"""Behind a gateway they may go to several replicas."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """What was sent, and the counters before and after."""

    before: Counters
    after: Counters
    num_requests: int
    prompt_tokens: int
    output_tokens: int
    is_shared: bool

    def counted(self, family: MetricFamily) -> float:
        """How much the counter grew."""
        return self.after[family] - self.before[family]


async def _observe_ledger(deployment: Deployment) -> Ledger:
    async def observe() -> Ledger:
        target = deployment.target
        before = await target.settle(lambda now: now.values.get(MetricFamily.RUNNING, 0) == 0)
        asked = [
            target.complete(
                prompt=PROMPTS[number % len(PROMPTS)], max_tokens=_TOKENS + number, temperature=0
            )
            for number in range(_NUM_REQUESTS)
        ]
        usages = [read_answer(reply).expect_usage() for reply in await together(asked)]
        ledger = Ledger(
            before,
            before,
            len(usages),
            sum(usage.prompt_tokens for usage in usages),
            sum(usage.completion_tokens for usage in usages),
            deployment.is_shared,
        )
        after = await target.settle(lambda now: _is_counted(ledger, now))
        return Ledger(
            before, after, ledger.num_requests, ledger.prompt_tokens, ledger.output_tokens,
            ledger.is_shared,
        )  # fmt: skip

    return await deployment.once("ledger", observe)


def _is_counted(ledger: Ledger, now: Counters) -> bool:
    """Whether the counters have reached what was sent."""
    wanted = {
        MetricFamily.FINISHED: ledger.num_requests,
        MetricFamily.OUTPUT_TOKENS: ledger.output_tokens,
        MetricFamily.PROMPT_TOKENS: ledger.prompt_tokens,
    }
    return all(
        now.values.get(family, 0) - ledger.before.values.get(family, 0) >= count
        for family, count in wanted.items()
    )


def judge_requests(ledger: Ledger, tier: Tier) -> Judgement:
    """As many finished requests as were sent."""
    return _judge_count(ledger, MetricFamily.FINISHED, ledger.num_requests, "requests")


def judge_tokens(ledger: Ledger, tier: Tier) -> Judgement:
    """As many prompt and output tokens as the usage of the answers adds up to."""
    sent = _judge_count(ledger, MetricFamily.PROMPT_TOKENS, ledger.prompt_tokens, "prompt tokens")
    got = _judge_count(ledger, MetricFamily.OUTPUT_TOKENS, ledger.output_tokens, "output tokens")
    return passed(f"{sent.reason}; {got.reason}", **sent.figures, **got.figures)


def _judge_count(ledger: Ledger, family: MetricFamily, sent: int, noun: str) -> Judgement:
    counted = ledger.counted(family)
    if counted < sent:
        raise Violation(f"the metrics count {counted:g} {noun}, the answers have {sent}")
    if counted > sent and not ledger.is_shared:
        raise Violation(
            f"the metrics count {counted:g} {noun}, the answers have {sent}; if other clients use "
            "the deployment, give --shared"
        )
    return passed(
        f"{counted:g} of {sent} {noun} are counted", **{f"num_{noun.split()[0]}": counted}
    )


@dataclass(frozen=True, slots=True)
class PrefixHits:
    """The counters before and after the same long prompt was sent several times."""

    before: Counters
    after: Counters


async def _observe_prefix(deployment: Deployment) -> PrefixHits:
    if deployment.is_shared:
        raise Missing("other clients use the deployment (--shared), and their hits count too")
    target = deployment.target
    text = (PROMPTS[2] * (_PREFIX_CHARS // len(PROMPTS[2]) + 1))[:_PREFIX_CHARS]
    longest = target.identity.max_model_len
    if longest is not None and longest < _PREFIX_CHARS + 2:
        text = text[: longest // 2]
    before = await target.counters()
    for _ in range(_NUM_REPEATS):
        (await target.complete(prompt=text, max_tokens=1, temperature=0)).expect_ok()
    after = await target.settle(lambda now: _num_found(PrefixHits(before, now)) > 0)
    return PrefixHits(before, after)


def _num_found(hits: PrefixHits) -> float:
    """Cached tokens, or the fraction where only that is shown."""
    for family in (MetricFamily.CACHED_TOKENS, MetricFamily.CACHED_FRACTION):
        found = hits.after.values.get(family, 0.0) - hits.before.values.get(family, 0.0)
        if found > 0:
            return found
    return 0.0


def judge_prefix(hits: PrefixHits, tier: Tier) -> Judgement:
    """Later requests find tokens of the first."""
    shown = {MetricFamily.CACHED_TOKENS, MetricFamily.CACHED_FRACTION} & hits.after.values.keys()
    if not shown:
        raise Missing("the metrics page does not show prefix cache hits")
    if _num_found(hits) <= 0:
        raise Violation(f"a prompt sent {_NUM_REPEATS} times finds no token in the prefix cache")
    return passed("a prompt that is sent again is found in the prefix cache")


CHECKS = (
    Check(
        "metrics-requests",
        Group.OPERATION,
        "The metrics count every request",
        _observe_ledger,
        judge_requests,
    ),
    Check(
        "metrics-tokens",
        Group.OPERATION,
        "The metrics count every token",
        _observe_ledger,
        judge_tokens,
    ),
    Check(
        "prefix-cache",
        Group.OPERATION,
        "A repeated prompt is found in the prefix cache",
        _observe_prefix,
        judge_prefix,
    ),
)
