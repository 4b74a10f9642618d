"""A governor held at 0 that observes nothing, for `benchmarks/plans/held-at-zero-served.json`.

With this folder on PYTHONPATH every step has draft length 0, and nothing else of the governor runs:
what its observer costs is the difference from `--policy off`.
"""

from __future__ import annotations

from typing import Any

from paceline.runtime.engine.scheduler.governor_driver import GovernorDriver


def _hold_at_zero(self: GovernorDriver, scheduler: Any, output: Any) -> None:
    output.num_spec_tokens_to_schedule = 0


def _do_nothing(self: GovernorDriver, *arguments: Any, **named: Any) -> None:
    pass


GovernorDriver.before_step = _hold_at_zero  # type: ignore[method-assign]
for _name in ("add_request", "before_schedule", "after_schedule", "after_step", "after_drafts"):
    setattr(GovernorDriver, _name, _do_nothing)
