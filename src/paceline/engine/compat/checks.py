"""Which places of vLLM Paceline relies on, and whether the installed vLLM still has them so.

Every place is one entry of `hook_register`: checked when the scheduler starts, and in the tests
against the installed vLLM. On a mismatch the part that needs the hook steps aside, loudly, and
vLLM serves on as if Paceline were not there.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from paceline.engine.compat.hook import HookFacts, VllmHook, is_judged_by_body, judge_hook
from paceline.engine.compat.register import REGISTER

_WORKER_PARTS = (
    "generator_repair",
    "resting_draft",
    "plain_sampling",
    "replay_scoring",
    "first_token",
    "v2_draft_length",
    "worker",
)


def check_hook(hook: VllmHook) -> str:
    """ "ok", or in words how the installed vLLM differs. Imports the target; never raises."""
    return judge_hook(hook, find_installed(hook))


def find_installed(hook: VllmHook) -> HookFacts:
    """What the installed vLLM has where `hook` points. Imports the target; never raises."""
    module_name, _, path = hook.target.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for attribute in path.split("."):
            found = getattr(found, attribute)
        # A replaced function carries the original: check what vLLM ships, not our own.
        found = inspect.unwrap(found)
    except (ImportError, AttributeError) as error:
        return HookFacts("missing", why_missing=str(error))
    if inspect.isclass(found):
        return HookFacts("fields", tuple(inspect.get_annotations(found)))
    if is_judged_by_body(hook):
        return HookFacts("mentions", found.__code__.co_names)
    return HookFacts("parameters", tuple(inspect.signature(found).parameters))


def check_hooks(*parts: str) -> dict[str, str]:
    """Every hook's name with "ok" or what does not fit; of some parts only, where named.

    Naming parts also spares the imports of the others' targets. Without names: all parts but
    those that only workers load.
    """
    return {
        hook.name: check_hook(hook)
        for hook in REGISTER
        if (hook.part in parts if parts else hook.part not in _WORKER_PARTS)
    }


def unfit_for(part: str, found: dict[str, str]) -> str:
    """What keeps `part` from working, in words; empty when every hook it needs fits."""
    needed = [hook.name for hook in REGISTER if hook.part == part]
    return "; ".join(f"{name}: {found[name]}" for name in needed if found[name] != "ok")
