"""Control the draft length in force under any policy, operator command or failure.

Holds the policy, the operator's ceiling and the safe plan, and owns the statistics. It uses neither
vLLM nor sockets: the scheduler drives it, and the control channel reads and sets it from other
threads.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from paceline.foundation.capacity.cost_table import CostTable
from paceline.foundation.command_line.near_names import did_you_mean
from paceline.runtime.engine.scheduler.engine_abilities import EngineAbilities
from paceline.runtime.engine.scheduler.settings import PluginSettings, check_policy_parameters
from paceline.runtime.engine.scheduler.step_statistics import StepStatistics
from paceline.runtime.governor.acceptance.confidence_map import Floats
from paceline.runtime.governor.policy import ChoosesWidths, KnowsStepTime, Policy
from paceline.runtime.governor.values import (
    DraftPlan,
    EngineLoad,
    StepSample,
    check_widths,
    longest_allowed,
)
from paceline.runtime.policy_registry import create_policy

logger = logging.getLogger("vllm.paceline.controller")

_SETTABLE = ("policy", "policy_parameters", "draft_length", "ceiling")


class DraftLengthController:
    """One engine's draft length. Every public method may be called from any thread."""

    def __init__(
        self,
        settings: PluginSettings,
        abilities: EngineAbilities,
        *,
        cost_table: CostTable | None = None,
        make_policy: Callable[..., Policy] = create_policy,
    ) -> None:
        """Create a controller; `cost_table` is None where no cost was measured.

        `make_policy` builds a policy as `create_policy` does.
        """
        self._lock = threading.RLock()
        self._settings = settings
        self._abilities = abilities
        self._ceiling = abilities.max_draft_length
        self._cost_table = cost_table
        self._make_policy = make_policy
        self._policies: dict[str, tuple[dict[str, Any], Policy]] = {}
        self._policy_name = settings.policy
        self._policy = self._policy_for(settings.policy, {})
        self._given_parameters: dict[str, Any] = {}
        self._plan = DraftPlan(self._safe_length(), "static setting until the first step")
        self._is_safe_plan = False
        self._statistics = StepStatistics(abilities.max_draft_length, cost_table)
        self._errors_by_kind: dict[str, int] = {}
        self._steps_total = 0
        self._safe_plan_steps_total = 0

    def plan(self, load: EngineLoad, *, recorded_length: int | None = None) -> DraftPlan:
        """Return the plan of the next step. Never raises: after any error it is the safe plan.

        `recorded_length`: the length that a recording wants instead of the policy's.
        """
        with self._lock:
            self._steps_total += 1
            try:
                plan = self._policy.plan(load)
                if not isinstance(plan, DraftPlan):
                    raise TypeError(f"the policy planned {plan!r}, which is no DraftPlan")
                if plan.draft_length > self._abilities.max_draft_length:
                    raise ValueError(
                        f"the policy planned draft length {plan.draft_length}; the longest is "
                        f"{self._abilities.max_draft_length}"
                    )
            except Exception as error:  # noqa: BLE001 - serving continues with the static setting
                return self.fall_back("plan", error)
            if recorded_length is not None:
                plan = DraftPlan(recorded_length, "other lengths, for the recording")
            ceiling = min(self._ceiling, load.max_draft_length)
            if plan.draft_length > ceiling:
                reason = f"{plan.reason}; limited by the ceiling"
                plan = replace(plan, draft_length=ceiling, reason=reason)
            allowed = self._allowed(plan.draft_length)
            if allowed != plan.draft_length:
                reason = f"{plan.reason}; {plan.draft_length} has no CUDA graphs"
                plan = replace(plan, draft_length=allowed, reason=reason)
            self._put_in_force(plan, is_safe_plan=False)
            return plan

    def choose_widths(
        self, confidences: Floats, classes: Sequence[str], limits: Sequence[int]
    ) -> Sequence[int] | None:
        """Return the policy's `ChoosesWidths.choose_widths`; None where it chooses none.

        Never raises: after any error it is None, and all drafts are verified.
        """
        with self._lock, self.noting_errors("choose_widths"):
            policy = self._policy
            if isinstance(policy, ChoosesWidths):
                widths = policy.choose_widths(confidences, classes, limits)
                check_widths(widths, confidences.shape)
                return widths
        return None

    def observe(self, sample: StepSample) -> None:
        """Pass a finished step to the policy. Never raises: the policy keeps its estimates."""
        with self._lock, self.noting_errors("observe"):
            self._statistics.observe(sample)
            self._policy.observe(sample)

    def count_drafts(self, drafted: Sequence[int], accepted: Sequence[int]) -> None:
        """Count a step's verified drafts, one entry per request, as vLLM's own metrics do."""
        with self._lock:
            self._statistics.count_drafts(drafted, accepted)

    def fall_back(self, where: str, error: Exception) -> DraftPlan:
        """Return the safe plan after an error; count it and log it once."""
        with self._lock:
            kind = self._count_error(where, error)
            plan = DraftPlan(self._safe_length(), f"static setting, because of {kind}")
            self._put_in_force(plan, is_safe_plan=True)
            self._safe_plan_steps_total += 1
            return plan

    @contextlib.contextmanager
    def noting_errors(self, where: str) -> Iterator[None]:
        """End the block at an error, which loses one sample but not the plan; serving continues.

        Errors are counted, and those of one kind logged once.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001 - serving continues
            with self._lock:
                self._count_error(where, error)

    def step_seconds(self) -> Sequence[float]:
        """Return the policy's expected time of a step by draft length; empty where it has none."""
        policy = self._policy
        return policy.step_seconds if isinstance(policy, KnowsStepTime) else ()

    def draft_length(self) -> int:
        """Return the latest planned length."""
        return self._plan.draft_length

    def ceiling(self) -> int:
        return self._ceiling

    def set(self, command: Mapping[str, Any]) -> None:
        """Carry out an operator's command; raise ValueError if it is wrong, and change nothing."""
        unknown = sorted(set(command) - set(_SETTABLE))
        if unknown:
            raise ValueError(
                f"set has the unknown key {unknown[0]!r}; allowed keys: {', '.join(_SETTABLE)}"
                f"{did_you_mean(unknown[0], _SETTABLE)}"
            )
        if not command:
            raise ValueError(f"set is empty; give at least one of {', '.join(_SETTABLE)}")
        with self._lock:
            ceiling = self._ceiling
            if "ceiling" in command:
                ceiling = self._length_of(command, "ceiling", self._abilities.max_draft_length)
            parameters = self._parameters_of(command)
            name = command.get("policy")
            if "draft_length" in command:
                length = self._length_of(command, "draft_length", ceiling)
                if name not in (None, "fixed"):
                    raise ValueError(
                        f"draft_length is given with policy {name!r}; only fixed takes it"
                    )
                name, parameters = "fixed", {"draft_length": length}
            if name is not None:
                check_policy_parameters(self._settings, name, parameters)
                self._policy = self._policy_for(name, parameters)
                self._policy_name, self._given_parameters = name, parameters
            self._ceiling = ceiling
            length = self._allowed(min(self._length_as_set(name), ceiling))
            self._plan = DraftPlan(length, "as set; the next step plans")

    def _length_of(self, command: Mapping[str, Any], key: str, highest: int) -> int:
        value = command[key]
        if type(value) is int and 0 <= value <= highest:
            return value
        is_lowered = highest < self._abilities.max_draft_length
        limit = "the ceiling in force" if is_lowered else "the engine's num_speculative_tokens"
        raise ValueError(
            f"{key} is {value!r}; it must be a whole number from 0 (off) to {highest}, {limit}"
        )

    def _parameters_of(self, command: Mapping[str, Any]) -> dict[str, Any]:
        """The parameters of the command's policy, unchecked."""
        name, given = command.get("policy"), command.get("policy_parameters", {})
        if name is not None and not isinstance(name, str):
            raise ValueError(f"policy is {name!r}; it must be the name of a policy")
        if not isinstance(given, Mapping):
            raise ValueError(
                f"policy_parameters is {given!r}; it must be an object of the policy's parameters"
            )
        if "policy_parameters" in command and (name is None or "draft_length" in command):
            raise ValueError(
                "policy_parameters is given without policy or together with draft_length; give "
                "policy and policy_parameters, without draft_length"
            )
        return dict(given)

    def _length_as_set(self, name: str | None) -> int:
        """Return the length that an idle engine shows until its next step plans."""
        if name == "off":
            return 0
        if name == "fixed":
            length = self._policies[name][0].get("draft_length")
            return self._abilities.max_draft_length if length is None else int(length)
        return self._plan.draft_length

    def state(self) -> dict[str, Any]:
        """Return the state for the control channel, without what only the scheduler knows.

        `policy_parameters` are those that an operator gave: with `policy` they repeat the setting.
        """
        with self._lock:
            return {
                "policy": self._policy_name,
                "policy_parameters": self._given_parameters,
                "draft_length": self._plan.draft_length,
                "ceiling": self._ceiling,
                "max_draft_length": self._abilities.max_draft_length,
                "allowed_lengths": self._abilities.allowed_lengths,
                "method": self._abilities.method,
                "reason": self._plan.reason,
                "safe_plan": self._is_safe_plan,
                "steps_total": self._steps_total,
                "safe_plan_steps_total": self._safe_plan_steps_total,
                "policy_errors_total": sum(self._errors_by_kind.values()),
                **self._statistics.state(),
            }

    def _policy_for(self, name: str, given: dict[str, Any]) -> Policy:
        """Return the policy with the parameters `given` in addition to those of the settings.

        Policies are kept, so that switching back loses no estimates. Different parameters build a
        new policy.
        """
        parameters = self._settings.parameters_for(name) | given
        kept = self._policies.get(name)
        if kept is None or kept[0] != parameters:
            objective_ms = self._settings.time_per_output_token_ms
            policy = self._make_policy(
                name,
                max_draft_length=self._abilities.max_draft_length,
                max_step_s=math.inf if objective_ms is None else objective_ms / 1e3,
                cost_table=self._cost_table,
                **parameters,
            )
            self._policies[name] = kept = (parameters, policy)
        return kept[1]

    def _safe_length(self) -> int:
        static = self._settings.draft_length
        static = self._abilities.max_draft_length if static is None else static
        return self._allowed(min(self._ceiling, static))

    def _allowed(self, draft_length: int) -> int:
        return longest_allowed(draft_length, allowed=self._abilities.allowed_lengths)

    def _put_in_force(self, plan: DraftPlan, *, is_safe_plan: bool) -> None:
        self._plan, self._is_safe_plan = plan, is_safe_plan
        self._statistics.planned(plan, is_safe_plan=is_safe_plan)

    def _count_error(self, where: str, error: Exception) -> str:
        kind = f"{type(error).__name__} in {where}"
        seen_before = self._errors_by_kind.get(kind, 0)
        self._errors_by_kind[kind] = seen_before + 1
        if not seen_before:
            logger.error(
                "Governor: %s under policy %s: %s. Serving continues with the static draft length; "
                "further errors of this kind are counted in policy_errors_total and not logged.",
                kind,
                self._policy_name,
                error,
                exc_info=error,
            )
        return kind
