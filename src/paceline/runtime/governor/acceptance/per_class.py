"""One estimate for each class of request, in bounded number, and the classes of a batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

Estimate = TypeVar("Estimate")

ANY_CLASS = ""
"""The class of requests whose class is not stated."""
_MAX_CLASSES = 64
"""Classes with an estimate of their own; all further ones share one."""


class PerClass(dict[str, Estimate]):
    """Creates the estimate of a class when it is first read."""

    def __init__(self, create: Callable[[], Estimate]) -> None:
        super().__init__()
        self._create = create

    def __missing__(self, name: str) -> Estimate:
        if len(self) >= _MAX_CLASSES and name != ANY_CLASS:
            return self[ANY_CLASS]
        return self.setdefault(name, self._create())


class ClassRows:
    """The class of each request of a batch, for computing with arrays."""

    def __init__(self, classes: Sequence[str]) -> None:
        rows = {name: row for row, name in enumerate(dict.fromkeys(classes))}
        self.names = tuple(rows)
        """The different classes."""
        self.of_request = np.array([rows[name] for name in classes], np.intp)
        """Index into `names`, (num_requests,)."""
