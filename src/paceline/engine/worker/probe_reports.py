"""The state and reports of a worker probe, which measures the drafter without relying on its
drafts.

An order reaches the worker as an extra attribute of vLLM's scheduler output; the report returns as
an extra attribute of the draft tokens. vLLM ignores both attributes, and pickling preserves them.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

logger = logging.getLogger("vllm.paceline.probes")

REPLAY_ORDER = "paceline_replay_scoring_tokens"
"""On the scheduler output: the most tokens that a replay scoring pass may compute."""
REPLAY_REPORT = "paceline_replay_scoring"
"""On the draft tokens: the fields of `governor.values.ReplayScores`, or `failed`."""
FIRST_TOKEN_ORDER = "paceline_first_tokens"
"""On the scheduler output: True where the drafter is to propose one token at draft length 0."""
FIRST_TOKEN_REPORT = "paceline_first_token_verdicts"
"""On the draft tokens: `verdicts`, or `failed`."""

_State = TypeVar("_State")
_T = TypeVar("_T")


@dataclass(slots=True)
class _OnRunner(Generic[_State]):
    """What one model runner keeps for one probe."""

    state: _State
    report: dict[str, Any] | None = None
    has_failed: bool = False


class RunnerProbe(Generic[_State]):
    """One probe: its state on each model runner, its failures, and the sending of its reports.

    A probe only informs the governor. After its first error it is off on that runner, vLLM
    continues, and the next report carries `{"failed": reason}`.
    """

    def __init__(
        self, name: str, *, report_attribute: str, make_state: Callable[[], _State]
    ) -> None:
        self._name = name
        self._report_attribute = report_attribute
        self._make_state = make_state
        self._attribute = f"_{report_attribute}"
        self.mark = f"__{report_attribute}__"
        """Attribute of a method that this probe has wrapped."""

    def state(self, runner: Any) -> _State:
        """Return the probe's state on `runner`, created at the first call."""
        return self._on(runner).state

    def run(self, runner: Any, call: Callable[..., _T], *arguments: Any) -> _T | None:
        """Return `call(runner, state, *arguments)`; None after a failure. Never raises."""
        kept = self._on(runner)
        if kept.has_failed:
            return None
        try:
            return call(runner, kept.state, *arguments)
        except Exception as error:
            logger.exception("Paceline: %s failed and is off until the engine restarts", self._name)
            kept.state, kept.has_failed = self._make_state(), True
            kept.report = {"failed": str(error)}
            return None

    def send(self, runner: Any, report: dict[str, Any]) -> None:
        """Send `report` to the scheduler with the next draft tokens."""
        self._on(runner).report = report

    def reporting(self, take: Any) -> Any:
        """Wrap `take_draft_token_ids`, which hands the drafts to the scheduler."""

        @functools.wraps(take)
        def take_draft_token_ids(runner: Any) -> Any:
            drafts = take(runner)
            kept = self._on(runner)
            if drafts is not None and kept.report is not None:
                setattr(drafts, self._report_attribute, kept.report)
                kept.report = None
            return drafts

        setattr(take_draft_token_ids, self.mark, True)
        return take_draft_token_ids

    def is_installed(self, runner: Any) -> bool:
        """Return whether the runner's class has the wrapped method."""
        return hasattr(getattr(type(runner), "take_draft_token_ids", None), self.mark)

    def _on(self, runner: Any) -> _OnRunner[_State]:
        if not hasattr(runner, self._attribute):
            setattr(runner, self._attribute, _OnRunner(self._make_state()))
        kept: _OnRunner[_State] = getattr(runner, self._attribute)
        return kept
