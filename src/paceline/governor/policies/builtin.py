"""The built-in policies by name, found among the modules of this package.

A module of this package declares a policy by a module-level `PolicyDefinition`; nothing else has
to list it. Policies of installed packages are added by `paceline.policy_registry`.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping

from paceline.governor import policies
from paceline.governor.policy_definition import PolicyDefinition

DEFAULT_POLICY = "goodput"


def _definitions() -> Iterator[PolicyDefinition]:
    for module_info in pkgutil.iter_modules(policies.__path__, f"{policies.__name__}."):
        if module_info.name == __name__:
            continue
        module = importlib.import_module(module_info.name)
        for value in vars(module).values():
            if isinstance(value, PolicyDefinition):
                yield value


def _by_name() -> dict[str, PolicyDefinition]:
    found: dict[str, PolicyDefinition] = {}
    for definition in _definitions():
        if found.setdefault(definition.name, definition) is not definition:
            raise ValueError(f"two built-in policies are called {definition.name}; rename one")
    return {name: found[name] for name in sorted(found, key=lambda n: (n != DEFAULT_POLICY, n))}


BUILTIN_POLICIES: Mapping[str, PolicyDefinition] = _by_name()
"""The default first, then by alphabet."""
