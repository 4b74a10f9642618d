"""Quality: the deployment answers your prompts as well as the unquantized model does.

The third tier of `paceline quality`, over HTTP: both servers answer the prompts greedily, each
answer is compared with the prompt's reference, and the mean loss over conversations is bounded by
betting. These bounds hold whenever they are looked at, so the check ends as soon as they decide.
What serves the answers (kernels, KV cache, speculation, gateway) is part of what is judged.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

from paceline.foundation.answer_quality.checkers import check_reference
from paceline.foundation.answer_quality.decisions import Limits, OutcomeFigures, judge_outcomes
from paceline.foundation.answer_quality.values import Outcome
from paceline.operations.validate.checks.check import Check
from paceline.operations.validate.checks.deployment import Deployment, together
from paceline.operations.validate.checks.scored_prompts import ScoredPrompt
from paceline.operations.validate.target.answers import read_answer
from paceline.operations.validate.target.target import CHAT, Target
from paceline.operations.validate.tiers import Tier
from paceline.operations.validate.values import (
    Figure,
    Group,
    Judgement,
    Missing,
    ValidationError,
    Violation,
    failed,
    passed,
    skipped,
)

LIMITS = Limits()
"""The defaults of `paceline quality`."""
_CONVERSATIONS_PER_PART = 16
"""Between two looks at the result. Chosen empirically: few, so that a loss is found soon."""
_MAX_SECONDS = 300.0
"""No part begins later. Approving takes some 250 prompts."""
_LAST_PART_S = 600.0
"""For the answers in flight then, each within the time limit of a request."""


@dataclass(frozen=True, slots=True)
class Scored:
    """How both servers answered."""

    outcomes: tuple[Outcome, ...]
    baseline_model: str
    num_given: int
    """Prompts with a reference; fewer outcomes if fewer decided, or the time was over."""


async def _observe(deployment: Deployment) -> Scored:
    baseline, prompts = deployment.baseline, deployment.scored_prompts
    if baseline is None:
        raise Missing(
            "there is nothing to compare with; give a server of the unquantized model (--baseline "
            "URL) and prompts with reference answers (--prompts FILE). Without such a server, "
            "compare the folders: paceline quality BASELINE CANDIDATE --prompts FILE"
        )
    if not prompts:
        raise Missing("no prompt of --prompts has a reference answer; add `reference` to its lines")
    deployment.refuse_to_load("quality")
    try:
        model = (await baseline.identify(None)).model
    except ValidationError as error:
        raise Missing(f"the baseline cannot be asked: {error}") from error
    slots = asyncio.Semaphore(deployment.tier.concurrency)
    outcomes: list[Outcome] = []
    give_up_s = time.monotonic() + _MAX_SECONDS
    for part in _parts(prompts):
        asked = [_answer_both(deployment.target, baseline, one, slots) for one in part]
        outcomes += await together(asked)
        if _is_decided(judge_outcomes(outcomes, LIMITS)) or time.monotonic() >= give_up_s:
            break
    return Scored(tuple(outcomes), model, len(prompts))


def _parts(prompts: Sequence[ScoredPrompt]) -> list[list[ScoredPrompt]]:
    """Whole conversations in random order: a file may have one task after another."""
    conversations: dict[str, list[ScoredPrompt]] = {}
    for prompt in prompts:
        conversations.setdefault(prompt.conversation, []).append(prompt)
    order = list(conversations.values())
    random.Random(0).shuffle(order)
    size = _CONVERSATIONS_PER_PART
    return [
        [prompt for some in order[start : start + size] for prompt in some]
        for start in range(0, len(order), size)
    ]


async def _answer_both(
    target: Target, baseline: Target, prompt: ScoredPrompt, slots: asyncio.Semaphore
) -> Outcome:
    """Raises `Missing` if the baseline does not answer, `Violation` if the deployment does not."""
    async with slots:
        try:
            before = await _score(baseline, prompt)
        except (Missing, Violation) as error:
            raise Missing(f"the baseline does not answer: {error}") from error
        return Outcome(prompt.conversation, before, await _score(target, prompt))


async def _score(target: Target, prompt: ScoredPrompt) -> float:
    ask = target.chat if prompt.path == CHAT else target.complete
    text = read_answer(await ask(temperature=0, **prompt.fields)).only().text
    return check_reference({"reference": prompt.reference}, text) or 0.0


def _is_decided(found: OutcomeFigures) -> bool:
    return bool(found.faults) or not found.lacking


def judge(observed: Scored, tier: Tier) -> Judgement:
    """The verdict of the gate's third tier: a proven loss fails, a proven bound passes."""
    if not observed.outcomes:
        raise Missing("no prompt was answered by both servers")
    found = judge_outcomes(observed.outcomes, LIMITS)
    assert found.loss.high is not None
    figures: dict[str, Figure] = {
        "baseline_model": observed.baseline_model,
        "baseline_score_fraction": round(found.baseline_score, 4),
        "score_fraction": round(found.candidate_score, 4),
        "max_loss_fraction": round(found.loss.high, 4),
        "limit_fraction": LIMITS.score_loss,
        "num_prompts": found.num_prompts,
        "num_worse": found.num_worse,
        "num_better": found.num_better,
    }
    text = (
        f"of {found.num_prompts} prompts {found.num_worse} are answered worse than by "
        f"{observed.baseline_model} of the baseline and {found.num_better} better"
    )
    if found.faults:
        return failed(f"{text}: {'; '.join(found.faults)}", **figures)
    if found.lacking:
        return skipped(f"{text}: {'; '.join(found.lacking)}", **figures)
    loss = max(0.0, found.loss.high)
    return passed(
        f"{text}: the loss of task score is at most {loss:.3f} (limit {LIMITS.score_loss:g})",
        **figures,
    )


CHECKS = (
    Check(
        "quality",
        Group.OUTPUT,
        "The served model is as good as the unquantized one on your prompts",
        _observe,
        judge,
        _MAX_SECONDS + _LAST_PART_S,
    ),
)
