"""Wrap methods of vLLM, once each, where the installed vLLM fits.

A wrapper gets the method that it replaces, then the arguments of the call. The method carries the
original as `__wrapped__`, by which `checks` judges vLLM's own.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import Any

from paceline.engine.compat.checks import check_hooks, unfit_for

logger = logging.getLogger("vllm.paceline.wrapping")


def fits(part: str, *, otherwise: str) -> bool:
    """Return whether the hooks of `part` fit; log what happens `otherwise` if they do not."""
    misfit = unfit_for(part, check_hooks(part))
    if misfit:
        logger.warning(
            "Paceline: %s is off, because this vLLM does not fit its hooks: %s. %s",
            part,
            misfit,
            otherwise,
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
