"""`Check`: an id, what it proves, an observation (I/O) and a decision (pure)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from paceline.operations.validate.checks.deployment import Deployment
from paceline.operations.validate.masking import hide_secrets
from paceline.operations.validate.tiers import Tier
from paceline.operations.validate.values import (
    CheckResult,
    Group,
    Judgement,
    Missing,
    Violation,
    failed,
    skipped,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Check(Generic[T]):
    """One item of the checklist."""

    id: str
    group: Group
    proves: str
    """What a PASS proves, as a statement about the deployment."""
    observe: Callable[[Deployment], Awaitable[T]]
    """Observes the deployment. Raises `Missing` for a SKIP and `Violation` for a FAIL."""
    judge: Callable[[T, Tier], Judgement]
    """Decides about the observation; pure. May raise `Missing` and `Violation` as well."""
    max_seconds: float | Callable[[Tier], float] = 120.0
    """An observation that takes longer is a FAIL; one of the load depends on the tier."""

    def decide(self, observed: T, tier: Tier) -> Judgement:
        """The judgement about what was observed."""
        try:
            return self.judge(observed, tier)
        except Violation as violation:
            return failed(str(violation))
        except Missing as missing:
            return skipped(str(missing))
        except Exception as error:  # noqa: BLE001 - the other checks still run
            return _unreadable(error)

    async def run(self, deployment: Deployment) -> CheckResult:
        """Observe and decide. An exception that no check expects is a FAIL of this one."""
        start_s = time.monotonic()
        limit = self.max_seconds
        max_seconds = limit(deployment.tier) if callable(limit) else limit
        try:
            async with asyncio.timeout(max_seconds):
                observed = await self.observe(deployment)
            judgement = self.decide(observed, deployment.tier)
        except Violation as violation:
            judgement = failed(str(violation))
        except Missing as missing:
            judgement = skipped(str(missing))
        except TimeoutError:
            judgement = failed(f"the check did not end within {max_seconds:g} s")
        except Exception as error:  # noqa: BLE001 - the other checks still run
            judgement = _unreadable(error)
        return CheckResult(
            id=self.id,
            group=self.group,
            proves=self.proves,
            status=judgement.status,
            reason=hide_secrets(judgement.reason, deployment.secrets),
            figures=dict(judgement.figures),
            seconds=round(time.monotonic() - start_s, 3),
        )


def _unreadable(error: Exception) -> Judgement:
    """A FAIL: the server answered something that the check cannot read."""
    return failed(f"the check cannot read what was observed: {type(error).__name__}: {error}")
