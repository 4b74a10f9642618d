"""Check the hooks in the register against the installed vLLM.

The scheduler checks its hooks when it starts, each worker checks its own, and the tests check all
of them. When a hook does not fit, the part that needs it logs that and stays off, and vLLM runs as
if that part did not exist.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any, get_args

from paceline.runtime.engine.compat.hook import (
    CorePart,
    HookFacts,
    VllmHook,
    is_judged_by_body,
    judge_hook,
)
from paceline.runtime.engine.compat.register import REGISTER


def check_hook(hook: VllmHook) -> str:
    """Return "ok", or in words how the installed vLLM differs. Imports the target; never raises."""
    return judge_hook(hook, find_installed(hook))


def find_installed(hook: VllmHook) -> HookFacts:
    """Return what the installed vLLM has at the hook's target. Imports it; never raises."""
    module_name, _, path = hook.target.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for attribute in path.split("."):
            found = getattr(found, attribute)
        # A function that Paceline wrapped carries the original: judge vLLM's own.
        found = inspect.unwrap(found)
    except (ImportError, AttributeError) as error:
        return HookFacts("missing", why_missing=str(error))
    if inspect.isclass(found):
        return HookFacts("fields", tuple(inspect.get_annotations(found)))
    if is_judged_by_body(hook):
        return HookFacts("mentions", found.__code__.co_names)
    return HookFacts("parameters", tuple(inspect.signature(found).parameters))


def check_hooks(*parts: str) -> dict[str, str]:
    """Return "ok" or the mismatch for each hook, by hook name; only those of `parts` if given.

    Only the targets of the named parts are imported. Without arguments, all parts are checked
    except those whose modules only workers and front ends load.
    """
    checked = parts or get_args(CorePart)
    return {hook.name: check_hook(hook) for hook in REGISTER if hook.part in checked}


def unfit_for(part: str, found: dict[str, str]) -> str:
    """Return the mismatches that keep `part` off, in words; empty when all its hooks fit."""
    needed = [hook.name for hook in REGISTER if hook.part == part]
    return "; ".join(f"{name}: {found[name]}" for name in needed if found[name] != "ok")
