"""What is set on the governors, and what restores it. Pure: from the admin port's answers.

A state's `draft_length` is the last plan, which request caps, the ceiling and errors change. What
was set is `policy` with `policy_parameters`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class SwitchUnavailable(Exception):
    """Speculation cannot be switched. The message says why."""


class ChangedByOther(SwitchUnavailable):
    """Another program or an operator set a governor meanwhile. Its setting was left in place."""


class RestoreFailed(Exception):
    """Governors still have a setting of this program. The message names them and the commands."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A policy with the parameters that were given at run time, as canonical JSON."""

    policy: str
    parameters: str = "{}"

    def change(self) -> dict[str, object]:
        """The body of PATCH /admin/governor that sets it.

        >>> Setting("fixed", '{"draft_length": 3}').change()
        {'draft_length': 3}
        >>> Setting("goodput").change()
        {'policy': 'goodput'}
        """
        parameters = json.loads(self.parameters)
        if self.policy == "fixed" and set(parameters) == {"draft_length"}:
            return dict(parameters)
        return {
            "policy": self.policy,
            **({"policy_parameters": parameters} if parameters else {}),
        }


def setting_after(change: Mapping[str, Any]) -> Setting:
    """What is in force after a change of the policy or of the draft length.

    >>> setting_after({"draft_length": 0})
    Setting(policy='fixed', parameters='{"draft_length": 0}')
    """
    if "draft_length" in change:
        return _setting("fixed", {"draft_length": change["draft_length"]})
    return _setting(change["policy"], change.get("policy_parameters", {}))


def setting_of(state: Mapping[str, Any]) -> Setting | None:
    """What is set; None if the engine does not report the parameters.

    >>> setting_of({"policy": "fixed", "draft_length": 3}) is None
    True
    """
    parameters = state.get("policy_parameters")
    if not isinstance(parameters, dict):
        return None
    return _setting(str(state["policy"]), parameters)


def _setting(policy: str, parameters: Mapping[str, Any]) -> Setting:
    return Setting(policy, json.dumps(parameters, sort_keys=True))


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
