"""The place of the quality gate: quality on the user's prompts against the unquantized model."""

from __future__ import annotations

from paceline.validate.checks.check import Check
from paceline.validate.checks.deployment import Deployment
from paceline.validate.tiers import Tier
from paceline.validate.values import Group, Judgement, Missing, passed


async def _observe(deployment: Deployment) -> None:
    raise Missing(
        "a running server does not show its weights; compare its folder with the unquantized one: "
        "paceline quality BASELINE CANDIDATE --prompts FILE"
    )


def _judge(observed: None, tier: Tier) -> Judgement:
    return passed("the quality gate approved the model")


CHECKS = (
    Check(
        "quality",
        Group.OUTPUT,
        "The served model is as good as the unquantized one on your prompts",
        _observe,
        _judge,
    ),
)
