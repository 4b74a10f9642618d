"""Speculation does not change the output: `paceline audit`, run as a check."""

from __future__ import annotations

from dataclasses import dataclass

from paceline.operations.validate.checks.check import Check
from paceline.operations.validate.checks.deployment import Deployment
from paceline.operations.validate.tiers import Tier
from paceline.operations.validate.values import Group, Judgement, Missing, failed, passed, skipped
from paceline.workbench.audit.auditing import Audit, AuditConfig
from paceline.workbench.audit.live import connected
from paceline.workbench.audit.values import AuditError
from paceline.workbench.audit.verdict import Verdict

_CONCURRENCY = 16
_SLACK = 1.5
"""An audit ends by itself; the check gives up later."""
MAX_AUDIT_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Audited:
    """The verdict of an audit."""

    verdict: Verdict
    reasons: tuple[str, ...]
    findings: tuple[str, ...]
    smallest_bias: float | None
    """A relative change of odds of this size would have been found."""
    num_drafted_tokens: int
    """Sampled tokens that were judged."""


async def _observe(deployment: Deployment) -> Audited:
    deployment.refuse_to_load("lossless")
    addresses, model = deployment.target.addresses, deployment.target.identity.model
    config = AuditConfig(max_seconds=deployment.audit_seconds, restart_seconds=0.0)
    async with connected(str(addresses.url), model, addresses.api_key, _CONCURRENCY) as server:
        audit = Audit(server, config)
        try:
            await audit.run()
        except AuditError as error:
            raise Missing(f"the server cannot be audited: {error}") from error
        decision = audit.decision()
    return Audited(
        decision.verdict,
        decision.reasons,
        decision.findings,
        audit.sampled.bias,
        audit.sampled.evidence.pooled.num_tokens,
    )


def judge(audited: Audited, tier: Tier) -> Judgement:
    """Lossless passes, lossy fails; an undecided audit decides nothing."""
    figures = {
        "smallest_bias_fraction": audited.smallest_bias,
        "num_judged_tokens": audited.num_drafted_tokens,
    }
    findings = "".join(f"; finding: {finding}" for finding in audited.findings)
    reasons = "; ".join(audited.reasons)
    if audited.verdict is Verdict.LOSSY:
        return failed(f"lossy: {reasons}{findings}", **figures)
    if audited.verdict is Verdict.UNDECIDED:
        return skipped(f"the audit is undecided: {reasons}{findings}", **figures)
    return passed(f"lossless: {reasons or 'nothing was found'}{findings}", **figures)


CHECKS = (
    Check(
        "lossless",
        Group.OUTPUT,
        "Speculation leaves the output as the model alone would give it",
        _observe,
        judge,
        _SLACK * MAX_AUDIT_SECONDS,
    ),
)
