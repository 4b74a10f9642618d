"""Wrap methods of vLLM, once each, where the installed vLLM fits.

A wrapper gets the method that it replaces, then the arguments of the call. The method carries the
original as `__wrapped__`, by which `checks` judges vLLM's own. Functions of a module are wrapped
like methods.
"""

from __future__ import annotations

import functools
import importlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from paceline.runtime.engine.compat.checks import check_hooks, unfit_for
from paceline.runtime.engine.compat.model_runner_loading import when_model_runner_loads

logger = logging.getLogger("vllm.paceline.wrapping")


@dataclass(frozen=True, slots=True)
class Wrappers:
    """What one part wraps in the workers."""

    part: str
    methods: Mapping[str, Callable[..., Any]]
    """The wrapper of each method, which is named as in `VllmHook.target`; wrapped in this order."""
    name: str = ""
    """What the log calls the part; if empty, `part`."""
    otherwise: str = ""
    """What happens, or what not to do, where the hooks do not fit."""

    def register(self) -> bool:
        """Wrap the methods once this process's worker loads vLLM's model runner; return whether
        that was registered. Imports none of their modules before. Idempotent."""
        module = next(iter(self.methods.values())).__module__
        return when_model_runner_loads(self._wrap, module)

    def _wrap(self) -> None:
        if fits(self.part, self.name, self.otherwise):
            for target, wrapper in self.methods.items():
                module, _, path = target.partition(":")
                *owners, name = path.split(".")
                owner = functools.reduce(getattr, owners, importlib.import_module(module))
                wrap_once(owner, name, self.part, wrapper)


def fits(part: str, name: str = "", otherwise: str = "") -> bool:
    """Return whether the hooks of `part` fit; if not, log that it is off and what that means."""
    misfit = unfit_for(part, check_hooks(part))
    if misfit:
        logger.warning(
            "Paceline: %s is off, because this vLLM does not fit its hooks: %s",
            name or part,
            ". ".join(filter(None, (misfit, otherwise))),
        )
    return not misfit


def wrap_once(owner: Any, name: str, part: str, wrapper: Callable[..., Any]) -> None:
    """Replace the method `name` of a class or an object, unless `part` has done so."""
    stock = getattr(owner, name)
    if is_wrapped(stock, part):
        return

    @functools.wraps(stock)
    def wrapped(*arguments: Any, **named: Any) -> Any:
        return wrapper(stock, *arguments, **named)

    setattr(wrapped, mark_of(part), True)
    setattr(owner, name, wrapped)


def is_wrapped(method: Any, part: str) -> bool:
    """Return whether `part` has wrapped this method."""
    return hasattr(method, mark_of(part))


def mark_of(part: str) -> str:
    """The attribute of methods that `part` has wrapped."""
    return f"__paceline_{part}__"
