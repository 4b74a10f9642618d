"""Run the checks in turn and keep their results; an interruption leaves those so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paceline.operations.validate.checks import Check, Deployment
from paceline.operations.validate.values import CheckResult, Status

NOT_REACHED = "not reached: the validation was interrupted before this check"


@dataclass(slots=True)
class Validation:
    """A validation; `run` fills `results`."""

    checks: Sequence[Check[Any]]
    kept: Mapping[str, CheckResult] = field(default_factory=dict)
    """Results of an earlier part, by check, which are not made again."""
    on_begin: Callable[[Check[Any]], None] = lambda check: None
    on_result: Callable[[CheckResult], None] = lambda result: None
    """Called after each check; `results` includes it already."""
    done: dict[str, CheckResult] = field(default_factory=dict)

    async def run(self, deployment: Deployment) -> None:
        """Run all checks that are not kept."""
        for check in self.checks:
            if check.id in self.kept:
                self.done[check.id] = self.kept[check.id]
                continue
            self.on_begin(check)
            result = await check.run(deployment)
            self.done[check.id] = result
            self.on_result(result)

    @property
    def results(self) -> tuple[CheckResult, ...]:
        """One result per check, in order; of checks that were not reached a SKIP."""
        return tuple(
            self.done.get(check.id) or self.kept.get(check.id) or _not_reached(check)
            for check in self.checks
        )


def _not_reached(check: Check[Any]) -> CheckResult:
    return CheckResult(
        id=check.id,
        group=check.group,
        proves=check.proves,
        status=Status.SKIP,
        reason=NOT_REACHED,
        figures={},
        seconds=0.0,
        is_final=False,
    )
