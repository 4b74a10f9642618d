"""Read the entry points of the group `paceline.policies` from the installed packages."""

from __future__ import annotations

import functools
import logging
from importlib.metadata import EntryPoint, entry_points

from paceline.runtime.governor.policies.builtin import BUILTIN_POLICIES
from paceline.runtime.governor.policy_definition import PolicyDefinition

# Under "vllm", the one logger that vLLM configures in its own processes.
logger = logging.getLogger("vllm.paceline.policies")

GROUP = "paceline.policies"


class BrokenEntryPoint(Exception):
    """A registered policy that cannot be used; the message says where it comes from and why."""


@functools.cache
def registered_names() -> tuple[str, ...]:
    """Names that installed packages register, by alphabet; reads their metadata only.

    A name that a built-in policy has, or that two packages register, is logged as an error; the
    built-in policy wins, or else the first package by alphabet.
    """
    return tuple(_entry_points())


def load_definition(name: str) -> PolicyDefinition:
    """Import the registered policy called `name`; BrokenEntryPoint when it fails.

    Tries once: a broken module is neither imported nor logged again.
    """
    loaded = _load_once(name)
    if isinstance(loaded, BrokenEntryPoint):
        raise BrokenEntryPoint(str(loaded)) from loaded
    return loaded


def forget_entry_points() -> None:
    """Read the installed packages anew on the next call."""
    registered_names.cache_clear()
    _load_once.cache_clear()
    _entry_points.cache_clear()


@functools.cache
def _load_once(name: str) -> PolicyDefinition | BrokenEntryPoint:
    try:
        return _load(_entry_points()[name])
    except BrokenEntryPoint as error:
        logger.error("Policy %s is left out: %s", name, error, exc_info=error.__cause__)
        return error


@functools.cache
def _entry_points() -> dict[str, EntryPoint]:
    found: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda p: (p.name, _source(p))):
        if point.name in BUILTIN_POLICIES:
            logger.error(
                "Policy %s of %s is left out: a built-in policy has this name; register it under "
                "another",
                point.name,
                _source(point),
            )
        elif point.name in found:
            if found[point.name].value != point.value:
                logger.error(
                    "Policy %s of %s is left out: %s registers the same name; uninstall one",
                    point.name,
                    _source(point),
                    _source(found[point.name]),
                )
        else:
            found[point.name] = point
    return found


def _load(point: EntryPoint) -> PolicyDefinition:
    where = f"entry point {point.name} = {point.value} of {_source(point)}"
    try:
        loaded = point.load()
    except Exception as error:
        raise BrokenEntryPoint(
            f"{where} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    if isinstance(loaded, PolicyDefinition):
        if loaded.name != point.name:
            raise BrokenEntryPoint(
                f"{where} holds the policy {loaded.name}; give both the same name"
            )
        return loaded
    if not isinstance(loaded, type) or not hasattr(loaded, "plan"):
        raise BrokenEntryPoint(
            f"{where} is a {type(loaded).__name__}; it must be a paceline.PolicyDefinition, or a "
            "policy class that takes the engine's ceiling as its only argument"
        )
    summary = (loaded.__doc__ or f"The policy {point.value}.").strip().splitlines()[0]
    try:
        return PolicyDefinition(name=point.name, summary=summary, create=loaded)
    except ValueError as error:
        raise BrokenEntryPoint(f"{where}: {error}") from error


def _source(point: EntryPoint) -> str:
    return "an unnamed package" if point.dist is None else str(point.dist.name)
