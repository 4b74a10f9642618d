"""What is set on the governors, and what restores it. Pure: from the admin port's answers.

A state's `draft_length` is the last plan, which request caps, the ceiling and errors change. What
was set is `policy` with `policy_parameters`, and `ceiling`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import Any


class SwitchUnavailable(Exception):
    """Speculation cannot be switched. The message says why."""


class SettingRefused(SwitchUnavailable):
    """The server does not accept this setting. The message is the server's."""


class ChangedByOther(SwitchUnavailable):
    """Another program or an operator set a governor meanwhile. Its setting was left in place."""


class RestoreFailed(Exception):
    """Governors still have a setting of this program. The message names them and the commands."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A policy, its parameters that were given at run time as canonical JSON, and a ceiling."""

    policy: str
    parameters: str = "{}"
    ceiling: int | None = None
    """None where the server reports none."""

    @property
    def is_off(self) -> bool:
        """Whether it never drafts.

        >>> Setting("fixed", '{"draft_length": 0}').is_off, Setting("goodput", ceiling=4).is_off
        (True, False)
        """
        length = json.loads(self.parameters).get("draft_length")
        return self.policy == "off" or (self.policy == "fixed" and length == 0) or self.ceiling == 0

    def after(self, change: Mapping[str, Any]) -> Setting:
        """What is in force after a change of the policy, of the draft length or of the ceiling.

        >>> Setting("goodput", ceiling=8).after({"draft_length": 0})
        Setting(policy='fixed', parameters='{"draft_length": 0}', ceiling=8)
        >>> Setting("goodput", ceiling=8).after({"ceiling": 2})
        Setting(policy='goodput', parameters='{}', ceiling=2)
        """
        ceiling = change.get("ceiling", self.ceiling)
        if "draft_length" in change:
            return _setting("fixed", {"draft_length": change["draft_length"]}, ceiling)
        if "policy" in change:
            return _setting(change["policy"], change.get("policy_parameters", {}), ceiling)
        return replace(self, ceiling=ceiling)

    def change(self, *, has_ceiling: bool = False) -> dict[str, object]:
        """The body of PATCH /admin/governor that sets it; with `has_ceiling` the ceiling too.

        >>> Setting("fixed", '{"draft_length": 3}', ceiling=4).change()
        {'draft_length': 3}
        >>> Setting("goodput", ceiling=4).change(has_ceiling=True)
        {'policy': 'goodput', 'ceiling': 4}

        An engine refuses a `draft_length` above the ceiling, but keeps one that was set before:

        >>> Setting("fixed", '{"draft_length": 3}', ceiling=2).change()
        {'policy': 'fixed', 'policy_parameters': {'draft_length': 3}}
        """
        parameters = json.loads(self.parameters)
        change: dict[str, object] = {"policy": self.policy}
        if self._is_length_within_ceiling(parameters):
            change = dict(parameters)
        elif parameters:
            change["policy_parameters"] = parameters
        if has_ceiling and self.ceiling is not None:
            change["ceiling"] = self.ceiling
        return change

    def _is_length_within_ceiling(self, parameters: Mapping[str, Any]) -> bool:
        if self.policy != "fixed" or set(parameters) != {"draft_length"}:
            return False
        length = parameters["draft_length"]
        return self.ceiling is None or (type(length) is int and length <= self.ceiling)


def setting_to_restore(now: Setting, original: Setting, ours: Set[Setting]) -> Setting:
    """The original, except for a policy or a ceiling that is in none of `ours`: another set it.

    >>> off = Setting("goodput", ceiling=8).after({"draft_length": 0})
    >>> lowered_by_other = off.after({"ceiling": 2})
    >>> setting_to_restore(lowered_by_other, Setting("goodput", ceiling=8), {off})
    Setting(policy='goodput', parameters='{}', ceiling=2)
    """
    ours = {original, *ours}
    is_policy_ours = (now.policy, now.parameters) in {(one.policy, one.parameters) for one in ours}
    is_ceiling_ours = now.ceiling in {one.ceiling for one in ours}
    return replace(
        original if is_policy_ours else now,
        ceiling=original.ceiling if is_ceiling_ours else now.ceiling,
    )


def setting_of(state: Mapping[str, Any]) -> Setting | None:
    """What is set; None if the engine does not report the parameters.

    >>> setting_of({"policy": "fixed", "draft_length": 3}) is None
    True
    """
    parameters = state.get("policy_parameters")
    if not isinstance(parameters, dict):
        return None
    ceiling = state.get("ceiling")
    return _setting(str(state["policy"]), parameters, ceiling if type(ceiling) is int else None)


def _setting(policy: str, parameters: Mapping[str, Any], ceiling: int | None) -> Setting:
    return Setting(policy, json.dumps(parameters, sort_keys=True), ceiling)


def states_by_name(document: object) -> dict[str, Mapping[str, Any] | str]:
    """Of each replica in an answer of /admin/governor the state, or why there is none."""
    replicas = document.get("replicas") if isinstance(document, dict) else None
    answers = replicas.items() if isinstance(replicas, dict) else ()
    return {str(name): _state_or_reason(answer) for name, answer in answers}


def _state_or_reason(answer: object) -> Mapping[str, Any] | str:
    if isinstance(answer, dict):
        for state in (answer, answer.get("state")):
            if isinstance(state, dict) and "policy" in state and "draft_length" in state:
                return state
        return str(answer.get("error") or "it reports no state")[:300]
    return "it reports no state"


def serves_model(entry: Mapping[str, Any], model: str | None) -> bool:
    """Whether an entry of /admin/replicas serves this model; an unnamed model is any.

    >>> serves_model({"model": "a"}, "b"), serves_model({"model": None}, "b")
    (False, True)
    """
    return model is None or entry.get("model") in (None, model)


def restoring_change(state: Mapping[str, Any]) -> dict[str, object]:
    """The change that gives a governor without run-time parameters the policy of this state.

    >>> restoring_change({"policy": "goodput", "draft_length": 3})
    {'policy': 'goodput'}
    >>> restoring_change({"policy": "fixed", "draft_length": 3})
    {'draft_length': 3}
    """
    if state["policy"] == "fixed":
        return {"draft_length": state["draft_length"]}
    return {"policy": state["policy"]}
